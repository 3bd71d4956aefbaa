#include "verbs/ibverbs/host/published_counters.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <type_traits>

#include "engine/os/os_clock.h"
#include "proto/address.h"
#include "verbs/view/port_counters.h"

namespace uroce::ibv {
namespace {

constexpr std::size_t kWords = sizeof(CounterSet) / sizeof(std::uint64_t);
static_assert(std::is_trivially_copyable_v<CounterSet> && sizeof(CounterSet) == kWords * sizeof(std::uint64_t));

/// Of the memfd. Another build of ours may count other things; it has other names then.
std::string memory_name(const std::string& name) {
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a; only has to spread.
  for (char c : name + "/" UROCE_VERSION "/" + std::to_string(kWords)) {
    hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001B3;
  }
  return "uroce-counters-" + std::to_string(hash);
}

/// Adds what is in the file to `words`.
void add(const std::filesystem::path& file, std::array<std::uint64_t, kWords>& words,
         std::set<std::pair<dev_t, ino_t>>& seen) {
  const engine::Fd memory(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  std::array<std::uint64_t, kWords> theirs{};
  // A child of fork() has its parent's open as well.
  if (!memory || ::fstat(memory.get(), &status) != 0 || !seen.insert({status.st_dev, status.st_ino}).second) return;
  if (::pread(memory.get(), theirs.data(), sizeof theirs, 0) != static_cast<ssize_t>(sizeof theirs)) return;
  for (std::size_t i = 0; i < kWords; ++i) words[i] += theirs[i];
}

}  // namespace

std::string counters_name(std::uint32_t index, const std::vector<proto::Gid>& addresses) {
  std::string name = std::to_string(index);
  for (const proto::Gid& address : addresses) name += ' ' + proto::to_string(address);
  return name;
}

std::unique_ptr<PublishedCounters> PublishedCounters::make(const std::string& name) {
  engine::Fd memory(::memfd_create(memory_name(name).c_str(), MFD_CLOEXEC));
  if (!memory || ::ftruncate(memory.get(), sizeof(CounterSet)) != 0) return nullptr;
  void* const words = ::mmap(nullptr, sizeof(CounterSet), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (words == MAP_FAILED) return nullptr;
  return std::unique_ptr<PublishedCounters>(
      new PublishedCounters(std::move(memory), static_cast<std::uint64_t*>(words)));
}

PublishedCounters::~PublishedCounters() { ::munmap(words_, sizeof(CounterSet)); }

void PublishedCounters::publish(const CounterSet& counters) {
  std::array<std::uint64_t, kWords> now{};
  std::memcpy(now.data(), &counters, sizeof counters);
  for (std::size_t i = 0; i < kWords; ++i) std::atomic_ref(words_[i]).store(now[i], std::memory_order_relaxed);
}

namespace {

CounterSet look_through_processes(const std::string& name) {
  const std::string link = "/memfd:" + memory_name(name) + " (deleted)";
  std::array<std::uint64_t, kWords> words{};
  std::set<std::pair<dev_t, ino_t>> seen;
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    if (process.path().filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    for (const auto& file : std::filesystem::directory_iterator(process.path() / "fd", error)) {
      if (std::filesystem::read_symlink(file.path(), error) == link) add(file.path(), words, seen);
    }
  }
  CounterSet sum;
  std::memcpy(static_cast<void*>(&sum), words.data(), sizeof sum);
  return sum;
}

}  // namespace

CounterSet sum_of_published(const std::string& name) {
  struct Known {
    Instant since;
    CounterSet sum;
  };
  static std::mutex mutex;
  static auto* const kKnown = new std::map<std::string, Known>;
  const std::scoped_lock lock(mutex);
  const Instant now = engine::os_now();
  const auto known = kKnown->find(name);
  if (known != kKnown->end() && now - known->second.since < view::kCounterLifespan) return known->second.sum;
  return ((*kKnown)[name] = {.since = now, .sum = look_through_processes(name)}).sum;
}

}  // namespace uroce::ibv
