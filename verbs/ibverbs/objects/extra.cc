// SPDX-License-Identifier: Apache-2.0
// What a NIC without a kernel driver can leave to nobody.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv {
namespace {

constexpr const char* kNoSuchGid = "no such port, GID index or flag";

void write_entry(struct ibv_gid_entry* entry, std::size_t entry_size, const proto::Gid& gid, std::uint32_t index,
                 std::uint32_t interface) {
  struct ibv_gid_entry ours {};
  std::copy(gid.raw.begin(), gid.raw.end(), ours.gid.raw);
  ours.gid_index = index;
  ours.port_num = 1;
  ours.gid_type = IBV_GID_TYPE_ROCE_V2;
  ours.ndev_ifindex = interface;
  std::memset(static_cast<void*>(entry), 0, entry_size);
  std::memcpy(static_cast<void*>(entry), &ours, std::min(entry_size, sizeof ours));
}

}  // namespace

namespace impl {

// No page is pinned, so that fork() needs no preparation.
int ibv_fork_init() { return 0; }
enum ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
int ibv_dontfork_range(void*, std::size_t) { return 0; }
int ibv_dofork_range(void*, std::size_t) { return 0; }

int _ibv_query_gid_ex(struct ibv_context* context, std::uint32_t port_num, std::uint32_t index,
                      struct ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_size) {
  const std::vector<proto::Gid>& gids = context_of(context).adapter->gids();
  if (port_num != 1 || flags != 0 || index >= gids.size()) return refuse(EINVAL, kNoSuchGid);
  write_entry(entry, entry_size, gids[index], index, interfaces_of(gids)[index]);
  return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context* context, struct ibv_gid_entry* entries, std::size_t max_entries,
                             std::uint32_t flags, std::size_t entry_size) {
  const std::vector<proto::Gid>& gids = context_of(context).adapter->gids();
  if (max_entries < gids.size()) {
    return -refuse(EINVAL, "the GID table has " + std::to_string(gids.size()) + " entries");
  }
  if (flags != 0) return -refuse(EINVAL, kNoSuchGid);
  const std::vector<std::uint32_t> interfaces = interfaces_of(gids);
  auto* out = reinterpret_cast<std::uint8_t*>(entries);
  for (std::uint32_t i = 0; i < gids.size(); ++i, out += entry_size) {
    write_entry(reinterpret_cast<struct ibv_gid_entry*>(out), entry_size, gids[i], i, interfaces[i]);
  }
  return static_cast<ssize_t>(gids.size());
}

// In this function alone the types are those of sysfs: 0 for IB and RoCEv1, 1 for RoCEv2.
int ibv_query_gid_type(struct ibv_context* context, std::uint8_t port_num, unsigned int index, int* type) {
  if (port_num != 1 || index >= context_of(context).adapter->gids().size()) {
    errno = EINVAL;
    return -1;
  }
  *type = 1;
  return 0;
}

// In libibverbs.so.1, open() knows our own files under /sys as well (verbs/preload).
int ibv_read_sysfs_file(const char* dir, const char* file, char* buffer, std::size_t size) {
  if (size == 0) return -1;
  const int fd = ::open((std::string(dir) + '/' + file).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t got = ::read(fd, buffer, size - 1);
  ::close(fd);
  if (got < 0) return -1;
  const bool newline = got > 0 && buffer[got - 1] == '\n';
  const ssize_t length = newline ? got - 1 : got;
  buffer[length] = '\0';
  return static_cast<int>(length);
}

const char* ibv_get_sysfs_path() { return "/sys"; }

}  // namespace impl
}  // namespace uroce::ibv
