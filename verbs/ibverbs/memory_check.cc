#include "verbs/ibverbs/memory_check.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>

namespace uroce::ibv {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// For places without /proc: whether the pages are mapped, at least.
int check_mapped(std::uintptr_t start, std::uintptr_t end) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  std::array<unsigned char, 1024> residency;
  for (std::uintptr_t at = start & ~(page - 1); at < end;) {
    const std::size_t bytes = std::min<std::size_t>(residency.size() * page, end - at);
    if (mincore(reinterpret_cast<void*>(at), bytes, residency.data()) != 0) return EFAULT;
    at += bytes;
  }
  return 0;
}

}  // namespace

int check_memory(const void* start, std::size_t length, bool writable) {
  auto at = reinterpret_cast<std::uintptr_t>(start);
  if (length > UINTPTR_MAX - at) return EFAULT;
  const std::uintptr_t end = at + length;
  const std::unique_ptr<std::FILE, CloseFile> maps(std::fopen("/proc/self/maps", "re"));
  if (maps == nullptr) return check_mapped(at, end);
  // Mappings come in order of their addresses; lines are longer than the buffer only in the file name.
  std::array<char, 256> line;
  bool line_begins = true;
  while (at < end && std::fgets(line.data(), line.size(), maps.get()) != nullptr) {
    std::uintptr_t low = 0;
    std::uintptr_t high = 0;
    char read = '-';
    char write = '-';
    const bool begins = line_begins;
    line_begins = std::find(line.begin(), std::find(line.begin(), line.end(), '\0'), '\n') != line.end();
    if (!begins || std::sscanf(line.data(), "%" SCNxPTR "-%" SCNxPTR " %c%c", &low, &high, &read, &write) != 4)
      continue;
    if (high <= at) continue;
    if (low > at || read != 'r' || (writable && write != 'w')) return EFAULT;
    at = high;
  }
  return at >= end ? 0 : EFAULT;
}

}  // namespace uroce::ibv
