// SPDX-License-Identifier: Apache-2.0
#include "engine/port/udp_port.h"

#include <algorithm>
#include <new>
#include <utility>

#include "proto/base/check.h"

namespace uroce::engine {
namespace {

/// How soon a full socket buffer is tried again when nobody polls.
constexpr Duration kRetryFull = std::chrono::milliseconds(1);
/// Packets for multicast groups that are taken each time.
constexpr std::size_t kGroupsLeast = 8;

}  // namespace

UdpPort::UdpPort(std::vector<ReceiveSocket> receivers, PortInfo info)
    : receivers_(std::move(receivers)), info_(std::move(info)) {
  for (const ReceiveSocket& socket : receivers_) {
    interrupts_.add(socket.fd.get());
    if (info_.receive_buffer_bytes == 0) info_.receive_buffer_bytes = socket.buffer_bytes;
    info_.receive_buffer_bytes = std::min(info_.receive_buffer_bytes, socket.buffer_bytes);
  }
  if (groups_.fd() >= 0) interrupts_.add_rare(groups_.fd());
}

std::uint16_t UdpPort::acquire_source_port(const proto::Gid& local, std::uint16_t wanted) {
  return senders_.acquire(local, wanted);
}

std::vector<proto::Gid> UdpPort::locals() const {
  std::vector<proto::Gid> locals;
  for (const ReceiveSocket& socket : receivers_) locals.push_back(socket.local);
  return locals;
}

int UdpPort::join_group(const proto::Gid& group) {
  const int error = groups_.join(group, locals());
  update_group_mask();
  return error;
}

void UdpPort::leave_group(const proto::Gid& group) {
  groups_.leave(group);
  update_group_mask();
}

void UdpPort::follow_addresses() {
  groups_.rejoin(locals());
  senders_.follow_addresses();
}

void UdpPort::mask_packets(bool masked) {
  masked_ = masked;
  interrupts_.mask(masked);
  update_group_mask();
}

void UdpPort::update_group_mask() {
  const bool wanted = masked_ && !groups_.empty();
  if (std::exchange(groups_masked_, wanted) != wanted) interrupts_.mask_rare(wanted);
}

std::size_t UdpPort::receive_groups(DatagramSink& sink, std::size_t budget) {
  if (groups_.empty()) return 0;
  // A little is for them, even where the other sockets never run dry.
  return groups_.receive(
      std::max(budget, kGroupsLeast),
      [&](ReceiveSocket& socket, const msghdr& message, Bytes payload) { deliver(socket, message, payload, sink); });
}

void UdpPort::count_overruns() {
  const auto count = [this](ReceiveSocket& socket) {
    if (socket.unasked < kFewestThatOverrun) return;
    socket.unasked = 0;
    const std::uint32_t drops = drops_of(socket.fd.get()).value_or(socket.drops_seen);
    counters_.receive_overruns += drops - socket.drops_seen;  // Modulo 2^32.
    socket.drops_seen = drops;
  };
  std::for_each(receivers_.begin(), receivers_.end(), count);
  groups_.for_each_socket(count);
}

void UdpPort::release_source_port(const proto::Gid& local, std::uint16_t port) { senders_.release(local, port); }

MutBytes UdpPort::tx_frame() {
  if (!lent_) lent_ = frames_.take();
  return lent_ ? frames_.bytes(*lent_) : MutBytes{};
}

/// The socket that packets of this path leave by. Nothing when it can't be opened, also for lack of memory.
std::optional<SendIndex> UdpPort::sender_for(const proto::Path& path) {
  try {
    return senders_.find_or_open(path.source, path.source_port);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

void UdpPort::tx_commit(const proto::Transmit& transmit) {
  UROCE_ASSERT(lent_.has_value() && transmit.size <= FramePool::kStride);
  const FrameIndex frame = *lent_;
  const proto::Path& path = transmit.path;
  const std::optional<SendIndex> index = sender_for(path);
  if (!index) {
    ++counters_.send_errors;  // The frame stays lent: it has not been used.
    return;
  }
  lent_.reset();
  SendSocket& socket = senders_[*index];
  ++socket.queued;
  const std::uint8_t hop_limit = std::max<std::uint8_t>(path.hop_limit, 1);  // 0 would not leave this host.
  if (!socket.has_header_fields) {
    // The packets of a QP agree in these, so the socket takes those of its first packet; control messages, which cost
    // some 150 ns, are for the others.
    socket.has_header_fields = set_header_fields(socket.fd.get(), socket.local, path.tclass, hop_limit);
    socket.tclass = path.tclass;
    socket.hop_limit = hop_limit;
  }

  Outgoing& out = outgoing_[frame.value];
  out.index = *index;
  out.to = SocketAddress(path.destination, proto::kRocePort, socket.scope);
  out.bytes = {.iov_base = frames_.bytes(frame).data(), .iov_len = transmit.size};
  out.message = msghdr{};
  out.message.msg_name = &out.to.v6;
  out.message.msg_namelen = out.to.size;
  out.message.msg_iov = &out.bytes;
  out.message.msg_iovlen = 1;
  // Multicast packets take their hop limit from elsewhere.
  if (!socket.has_header_fields || path.destination.is_multicast() || socket.tclass != path.tclass ||
      socket.hop_limit != hop_limit) {
    out.message.msg_controllen = out.control.fill(socket.local, path.tclass, hop_limit);
    out.message.msg_control = out.control.bytes.data();
  }
  enqueue(frame);
}

bool UdpPort::wait(std::optional<Instant> deadline) {
  if (blocked_.load(std::memory_order_relaxed)) {
    const Instant retry = os_now() + kRetryFull;
    deadline = deadline ? std::min(*deadline, retry) : retry;
  }
  return interrupts_.wait(deadline);
}

bool UdpPort::doze(Instant earliest, Duration slack) {
  return blocked_.load(std::memory_order_relaxed) ? wait(earliest) : interrupts_.doze(earliest, slack);
}

void UdpPort::abandon_after_fork() {
  interrupts_.close();
  receivers_.clear();
  groups_.close_all();
  senders_.close_all();
}

void UdpPort::sent(FrameIndex frame) {
  ++counters_.sent_packets;
  counters_.sent_bytes += outgoing_[frame.value].bytes.iov_len;
  --senders_[outgoing_[frame.value].index].queued;
  frames_.give_back(frame);
}

void UdpPort::refused(FrameIndex frame, int error) {
  ++counters_.send_errors;
  counters_.last_send_error = error;
  --senders_[outgoing_[frame.value].index].queued;
  frames_.give_back(frame);
}

void UdpPort::deliver(ReceiveSocket& socket, const msghdr& message, Bytes payload, DatagramSink& sink) {
  const ReceiveControl control = parse_receive_control(message);
  ++socket.unasked;
  const auto* from = static_cast<const sockaddr*>(message.msg_name);
  proto::Datagram datagram{.path = {.source = gid_of(from),
                                    .destination = socket.local,
                                    .source_port = port_of(from),
                                    .tclass = control.tclass,
                                    .hop_limit = control.hop_limit,
                                    .flow_label = 0},
                           .payload = payload};
  if (control.packet_size != 0)
    datagram.payload = payload.first(std::min<std::size_t>(control.packet_size, payload.size()));
  // Once at least: a datagram may be empty.
  do {
    ++counters_.received_packets;
    counters_.received_bytes += datagram.payload.size();
    sink.on_datagram(datagram);
    payload = payload.subspan(datagram.payload.size());
    datagram.payload = payload.first(std::min(datagram.payload.size(), payload.size()));
  } while (!payload.empty());
}

}  // namespace uroce::engine
