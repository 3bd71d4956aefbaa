// SPDX-License-Identifier: Apache-2.0
// One address, many NICs: receive sockets of one port (SO_REUSEPORT), one per slot, among which the kernel chooses by
// the slot in a packet's QPN (its top byte).
//
// The kernel numbers these sockets in the order in which they were bound, and when one of them is closed, the
// last one moves into its place (measured on Linux 6.18). So all of them are opened at once, and stay open as long as
// anybody uses one.
#pragma once

#include <vector>

#include "engine/port/udp_socket.h"

namespace uroce::engine {

/// Slots of an address. 128 descriptors fit into one message (SCM_MAX_FD is 253) and, a few times, into what a user
/// may have in flight (RLIMIT_NOFILE).
inline constexpr std::size_t kSlots = 128;
/// QPNs without a slot, which includes QP 0 and QP 1 (management), go here. No NIC gets it.
inline constexpr std::uint8_t kManagementSlot = 0;

/// Opens the sockets of all slots of `local`, by slot, retired. A packet whose slot has no socket goes to any of them.
/// Error EADDRINUSE: somebody else has the address, shared or not.
Result<std::vector<Fd>, SetupError> open_slot_sockets(const proto::Gid& local);

/// The owner of the address: processes of this user that share it, or a NIC alone or another user. At this moment:
/// sockets of killed processes go one by one.
enum class Holder : std::uint8_t { kNobody, kSharedByUser, kOther };
Holder holder_of(const proto::Gid& local);

/// Empties a slot that nobody uses, and has the kernel drop what arrives there; false when the kernel refuses.
bool retire_slot(int fd);
/// The contrary. What was sent to the slot before does not reach the new user.
bool revive_slot(int fd);
/// Whether the slot is retired. The kernel remembers it, whichever processes end.
bool is_retired(int fd);

}  // namespace uroce::engine
