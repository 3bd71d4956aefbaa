// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/slots.h"

#include <linux/filter.h>

#include <cstring>

namespace uroce::engine {
namespace {

/// Offset of the slot in the UDP payload: the top byte of BTH's DestQP.
constexpr std::uint32_t kSlotOffset = 5;

/// Steers by slot. Offsets count from the UDP payload on (measured); a packet that is too short goes to slot 0.
bool attach_steering(int fd) {
  sock_filter steer[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kSlotOffset),
      BPF_STMT(BPF_RET | BPF_A, 0),
  };
  const sock_fprog program{.len = std::size(steer), .filter = steer};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0;
}

/// From now on, before it takes memory.
bool drop_everything_received(int fd) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{.len = 1, .filter = &drop};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

void drain(int fd) {
  char byte = 0;
  while (::recv(fd, &byte, sizeof byte, MSG_DONTWAIT) >= 0 || errno == EINTR) continue;
}

SetupError system_error(const char* what) {
  const int error = errno;
  return {error, std::string(what) + ": " + std::strerror(error)};
}

}  // namespace

Result<std::vector<Fd>, SetupError> open_slot_sockets(const proto::Gid& local) {
  // Joining the sockets of somebody else would give our sockets numbers of their own.
  if (const auto alone = open_receive_socket(local, Sharing::kNone); !alone) return Err{alone.error()};
  std::vector<Fd> sockets;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    auto socket = open_receive_socket(local, Sharing::kReusePort);
    if (!socket) {
      SetupError error = socket.error();
      if (error.error == EMFILE)
        error.sentence += "; an address that processes share takes " + std::to_string(kSlots) + " sockets";
      return Err{std::move(error)};
    }
    const int fd = socket->fd.get();
    if (slot == 0 && !attach_steering(fd))
      return Err{system_error("can't attach the program that steers packets to slots")};
    if (!retire_slot(fd)) return Err{system_error("can't attach a socket filter")};
    sockets.push_back(std::move(socket->fd));
  }
  return sockets;
}

Holder holder_of(const proto::Gid& local) {
  if (open_receive_socket(local, Sharing::kNone).ok()) return Holder::kNobody;
  // For a moment it is the last of the sockets, which nothing is sent to.
  return open_receive_socket(local, Sharing::kReusePort).ok() ? Holder::kSharedByUser : Holder::kOther;
}

bool retire_slot(int fd) {
  if (!drop_everything_received(fd)) return false;
  drain(fd);
  return true;
}

bool revive_slot(int fd) {
  drain(fd);
  receive_trains(fd, false);  // As the last user may have wanted.
  int unused = 0;
  return ::setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused) == 0;
}

bool is_retired(int fd) {
  socklen_t instructions = 0;
  return ::getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, nullptr, &instructions) == 0 && instructions > 0;
}

}  // namespace uroce::engine
