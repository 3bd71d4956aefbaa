// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/slot_table.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "engine/broker/claims.h"
#include "engine/os/known_fd.h"
#include "engine/os/unix_message.h"

namespace uroce::engine {
namespace {

constexpr char kMark = 'u';

Result<Fd, SetupError> make_bag(const std::vector<Fd>& sockets) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return Err{SetupError{errno, std::string("can't open a Unix socket: ") + std::strerror(errno)}};
  }
  Fd bag(ends[0]);
  const Fd in(ends[1]);
  std::vector<int> descriptors;
  descriptors.reserve(sockets.size());
  for (const Fd& socket : sockets) descriptors.push_back(socket.get());
  if (!send_message(in.get(), kMark, descriptors)) {
    return Err{SetupError{errno, std::string("can't keep ") + std::to_string(kSlots) +
                                     " sockets: " + std::strerror(errno) + "; raise RLIMIT_NOFILE (ulimit -n)"}};
  }
  return bag;
}

}  // namespace

Result<SlotTable, SetupError> SlotTable::open(const proto::Gid& local) {
  auto sockets = open_slot_sockets(local);
  if (!sockets) return Err{sockets.error()};
  auto bag = make_bag(*sockets);
  if (!bag) return Err{bag.error()};
  auto claims = make_claims();
  if (!claims.ok()) return Err{call_failed("can't note who listens", "memfd_create", claims.error())};
  return SlotTable(std::move(*sockets), std::move(*bag), std::move(*claims));
}

std::optional<SlotTable> SlotTable::from_bag(Fd bag, Fd claims) {
  char mark = 0;
  std::vector<Fd> sockets;
  const bool is_whole = receive_message(bag.get(), &mark, sizeof mark, sockets, MSG_PEEK);
  if (!claims || !is_whole || mark != kMark || sockets.size() != kSlots) return std::nullopt;
  return SlotTable(std::move(sockets), std::move(bag), std::move(claims));
}

SlotTable::SlotTable(std::vector<Fd> sockets, Fd bag, Fd claims)
    : sockets_(std::move(sockets)), bag_(std::move(bag)), claims_(std::move(claims)) {
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    if (slot != kManagementSlot && is_retired(sockets_[slot].get())) free_.push_back(static_cast<std::uint8_t>(slot));
  }
  // Those who had this address before us may have late packets under way; begin anywhere.
  std::uint32_t random = 0;
  if (free_.empty() || ::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) return;
  std::rotate(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(random % free_.size()), free_.end());
}

std::optional<std::uint8_t> SlotTable::lease_any() {
  while (!free_.empty()) {
    const std::uint8_t slot = free_.front();
    if (lease(slot)) return slot;
    free_.pop_front();  // The kernel refuses: out of memory.
  }
  return std::nullopt;
}

bool SlotTable::lease(std::uint8_t slot) {
  const auto at = std::find(free_.begin(), free_.end(), slot);
  if (at == free_.end() || !revive_slot(sockets_[slot].get())) return false;
  free_.erase(at);
  leased_[slot] = true;
  return true;
}

bool SlotTable::keep(std::uint8_t slot) {
  if (slot >= kSlots || leased_[slot] || is_retired(sockets_[slot].get())) return false;
  leased_[slot] = true;
  return true;
}

void SlotTable::give_back(std::uint8_t slot) {
  leased_[slot] = false;
  // A slot that can't be retired is not leased again: its socket may hold anything.
  if (retire_slot(sockets_[slot].get())) free_.push_back(slot);
}

bool SlotTable::is_bag(int bag) const {
  const auto ours = FileIdentity::of(bag_.get());
  return ours && ours->is_behind(bag);
}

}  // namespace uroce::engine
