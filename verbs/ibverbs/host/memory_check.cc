// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/memory_check.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "proto/base/fd.h"

#ifndef MADV_POPULATE_READ  // glibc before 2.34
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace uroce::ibv {
namespace {

/// The argument of PROCMAP_QUERY (Linux 6.11), which Debian 12's headers do not know.
struct MapQuery {
  std::uint64_t size = sizeof(MapQuery);
  std::uint64_t flags = 0;  ///< Asks for the mapping that covers `address`.
  std::uint64_t address = 0;
  std::uint64_t start = 0, end = 0;  ///< The answer, ...
  std::uint64_t rights = 0;          ///< ... of which these two bits are used.
  std::uint64_t unused[7] = {};
  static constexpr std::uint64_t kReadable = 1, kWritable = 2;
};
constexpr unsigned long kMapQuery = _IOWR('f', 17, MapQuery);

struct CloseFile {
  void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
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

struct Mapping {
  std::uintptr_t low = 0, high = 0;
  bool readable = false, writable = false;
};

/// Reads "low-high rw..."; nothing when `line` is anything else.
std::optional<Mapping> parse_mapping(std::string_view line) {
  Mapping m;
  const char* const end = line.data() + line.size();
  const auto low = std::from_chars(line.data(), end, m.low, 16);
  if (low.ec != std::errc{} || low.ptr == end || *low.ptr != '-') return std::nullopt;
  const auto high = std::from_chars(low.ptr + 1, end, m.high, 16);
  if (high.ec != std::errc{} || end - high.ptr < 3 || *high.ptr != ' ') return std::nullopt;
  m.readable = high.ptr[1] == 'r';
  m.writable = high.ptr[2] == 'w';
  return m;
}

/// Not /proc/self: that is the main thread, which may have ended, and has no memory then.
constexpr const char* kMaps = "/proc/thread-self/maps";

/// Asks the kernel for each mapping of the range. Nothing: it is too old for that.
std::optional<int> check_by_queries(std::uintptr_t at, std::uintptr_t end, bool writable) {
  const Fd maps(::open(kMaps, O_RDONLY | O_CLOEXEC));
  while (at < end) {
    MapQuery query{.address = at};
    if (::ioctl(maps.get(), kMapQuery, &query) != 0) {
      if (errno == ENOENT) return EFAULT;
      return std::nullopt;
    }
    const std::uint64_t wanted = MapQuery::kReadable | (writable ? MapQuery::kWritable : 0);
    if ((query.rights & wanted) != wanted) return EFAULT;
    at = query.end;
  }
  return 0;
}

}  // namespace

int check_memory(const void* start, std::size_t length, bool writable) {
  const auto at = reinterpret_cast<std::uintptr_t>(start);
  const std::uintptr_t end = at + length;
  const auto in_page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)) - 1;
  if (end < at || end > UINTPTR_MAX - in_page) return EINVAL;  // As ib_umem_get() has it.
  if (const auto checked = check_by_queries(at, end, writable)) return *checked;
  return check_memory_by_list(start, length, writable);
}

int check_memory_by_list(const void* start, std::size_t length, bool writable) {
  auto at = reinterpret_cast<std::uintptr_t>(start);
  const std::uintptr_t end = at + length;
  const std::unique_ptr<std::FILE, CloseFile> maps(std::fopen(kMaps, "re"));
  if (maps == nullptr) return check_mapped(at, end);
  // Mappings come in order of their addresses, one a line; only file names make lines longer than the buffer.
  std::array<char, 256> buffer;
  bool line_begins = true;
  while (at < end && std::fgets(buffer.data(), buffer.size(), maps.get()) != nullptr) {
    const std::string_view line(buffer.data());
    const auto mapping = line_begins ? parse_mapping(line) : std::nullopt;
    line_begins = line.ends_with('\n');
    if (!mapping || mapping->high <= at) continue;
    if (mapping->low > at || !mapping->readable || (writable && !mapping->writable)) return EFAULT;
    at = mapping->high;
  }
  return at >= end ? 0 : EFAULT;
}

bool touch_memory(const void* start, std::size_t length, bool write) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(start);
  if (length > UINTPTR_MAX - at - page) return false;
  const std::uintptr_t first = at & ~(page - 1), end = (at + length + page - 1) & ~(page - 1);
  if (madvise(reinterpret_cast<void*>(first), end - first, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0) {
    return true;
  }
  // Before Linux 5.14 there is no such advice, nor is it for the memory of devices.
  return errno == EINVAL && check_memory(start, length, write) == 0;
}

}  // namespace uroce::ibv
