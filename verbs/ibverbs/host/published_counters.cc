// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/published_counters.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>

#include "engine/os/os_clock.h"
#include "proto/address.h"
#include "verbs/ibverbs/host/published_memory.h"
#include "verbs/view/port_counters.h"

namespace uroce::ibv {
namespace {

constexpr std::size_t kWords = sizeof(CounterSet) / sizeof(std::uint64_t);
static_assert(std::is_trivially_copyable_v<CounterSet> && sizeof(CounterSet) == kWords * sizeof(std::uint64_t));

std::string counters_memory(const std::string& name) {
  return published_name("counters", name + '/' + std::to_string(kWords));
}

}  // namespace

std::string counters_name(std::uint32_t index, const std::vector<proto::Gid>& addresses) {
  // The others may come and go while the NIC stays the same.
  return addresses.empty() ? std::to_string(index) : std::to_string(index) + ' ' + proto::to_string(addresses.front());
}

std::unique_ptr<PublishedCounters> PublishedCounters::make(const std::string& name) {
  void* words = nullptr;
  engine::Fd memory = publish_memory(counters_memory(name), sizeof(CounterSet), &words);
  if (!memory) return nullptr;
  return std::unique_ptr<PublishedCounters>(
      new PublishedCounters(std::move(memory), static_cast<std::uint64_t*>(words)));
}

PublishedCounters::~PublishedCounters() { ::munmap(words_, sizeof(CounterSet)); }

/// Others read this with pread(), and may see some of a change.
void PublishedCounters::publish(const CounterSet& counters) { std::memcpy(words_, &counters, sizeof counters); }

namespace {

CounterSet look_through_processes(const std::string& name) {
  std::array<std::uint64_t, kWords> words{};
  for_each_published(counters_memory(name), [&words](int memory, std::uint32_t /*pid*/) {
    std::array<std::uint64_t, kWords> theirs{};
    if (::pread(memory, theirs.data(), sizeof theirs, 0) != static_cast<ssize_t>(sizeof theirs)) return;
    for (std::size_t i = 0; i < kWords; ++i) words[i] += theirs[i];
  });
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
  // In a child of fork() it may be held for ever, by a thread of the parent.
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) return look_through_processes(name);
  static auto* const kKnown = new std::map<std::string, Known>;
  const Instant now = engine::os_now();
  const auto known = kKnown->find(name);
  if (known != kKnown->end() && now - known->second.since < view::kCounterLifespan) return known->second.sum;
  return ((*kKnown)[name] = {.since = now, .sum = look_through_processes(name)}).sum;
}

}  // namespace uroce::ibv
