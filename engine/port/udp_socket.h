// SPDX-License-Identifier: Apache-2.0
// UDP sockets as RoCEv2 needs them: DF set and IPv4 Identification 0 (the ICRC covers it), UDP checksum 0, and the IP
// header's TOS/TTL or traffic class/hop limit set and seen per packet.
#pragma once

#include <sys/socket.h>

#include <array>
#include <optional>

#include "engine/os/fd.h"
#include "engine/os/setup_error.h"
#include "engine/port/socket_address.h"
#include "proto/base/result.h"

namespace uroce::engine {

struct ReceiveSocket {
  Fd fd;
  proto::Gid local;
  std::uint32_t scope = 0;         ///< Interface of a link-local address.
  std::uint32_t buffer_bytes = 0;  ///< SO_RCVBUF as the kernel accounts it: payload and its own overhead.
  std::uint32_t drops_seen = 0;    ///< As drops_of() last said.
  std::uint32_t unasked = 0;       ///< Packets received since then.
};

/// Whether other sockets may receive from the same address and port.
enum class Sharing : std::uint8_t {
  kNone,
  kReusePort,  ///< With sockets of the same user that say so too (SO_REUSEPORT); each packet goes to one of them.
};

/// Opens the socket that receives everything sent to `local`, port 4791, with a receive buffer of up to 8 MiB (twice
/// that in the kernel's accounting), or as much as net.core.rmem_max allows without CAP_NET_ADMIN. Non-blocking,
/// close-on-exec. The error says which address is taken and what to do.
Result<ReceiveSocket, SetupError> open_receive_socket(const proto::Gid& local, Sharing sharing = Sharing::kNone);

/// Opens a socket that receives what is sent to the multicast group `group`, port 4791, on the interfaces of those of
/// `locals` that are of its IP version, at least one of which must take it; of the groups that IPv6 has once for each
/// interface or link, on the interface of the first. Any number of them can be open for one group.
Result<ReceiveSocket, SetupError> open_group_socket(const proto::Gid& group, std::span<const proto::Gid> locals);

/// A socket of open_receive_socket() that came from another process. What it has dropped so far is not counted.
ReceiveSocket adopt_receive_socket(Fd fd, const proto::Gid& local);

/// How many packets a receive socket had no room for, or its filter has dropped, since it was opened (wraps). Nothing
/// when the kernel does not tell.
std::optional<std::uint32_t> drops_of(int receive_fd);

/// Has an IPv6 socket of open_send_socket() send multicast packets from the interface that has `local`. With IPv4, the
/// source address decides where they leave.
void direct_multicast(int send_fd, const proto::Gid& local);

/// Opens an unconnected socket that sends from `local`, UDP source port `port`; it never receives. Several processes
/// may send from one address and port. Connected sockets would number their packets: the kernel sends ID 0 only for
/// unconnected ones with IP_PMTUDISC_DO or PROBE (measured on Linux 6.18).
Result<Fd, SetupError> open_send_socket(const proto::Gid& local, std::uint16_t port);

/// Sets TOS/TTL or traffic class/hop limit of a send socket; false when the kernel refuses.
bool set_header_fields(int fd, const proto::Gid& local, std::uint8_t tclass, std::uint8_t hop_limit);

/// Lets a send socket send trains: one message that the kernel, or the network card, cuts into packets (UDP GSO; Linux
/// 4.18). Its packets then have a UDP checksum, without which the kernel refuses trains.
bool allow_trains(int send_fd, const proto::Gid& local);
/// Has a receive socket hand over as one message what came as one or was put together on the way (UDP GRO; Linux 5.0).
bool receive_trains(int receive_fd, bool wanted = true);

/// Control messages of what is sent at once: traffic class and hop limit of a packet, packet size of a train.
struct SendControl {
  alignas(cmsghdr) std::array<char, 3 * CMSG_SPACE(sizeof(int))> bytes;
  /// Fills `bytes`; returns how many.
  std::size_t fill(const proto::Gid& local, std::uint8_t tclass, std::uint8_t hop_limit);
  std::size_t fill_train(std::uint16_t packet_size);
};

/// Room for the control messages of one received packet, or train.
inline constexpr std::size_t kReceiveControlSize = 2 * CMSG_SPACE(sizeof(int));
inline constexpr std::size_t kReceiveTrainControlSize = kReceiveControlSize + CMSG_SPACE(sizeof(int));

/// What the control messages of a received packet say.
struct ReceiveControl {
  std::uint8_t tclass = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t packet_size = 0;  ///< In a train, whose last packet may be shorter; 0: no train.
};
/// `message` needs msg_control and msg_controllen only.
ReceiveControl parse_receive_control(const msghdr& message);

}  // namespace uroce::engine
