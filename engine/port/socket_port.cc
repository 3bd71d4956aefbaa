// SPDX-License-Identifier: Apache-2.0
#include "engine/port/socket_port.h"

#include <algorithm>
#include <cstring>

#include "proto/headers.h"

namespace uroce::engine {
namespace {

bool same_dest_qp(const iovec& a, const iovec& b) {
  const auto dest_qp = [](const iovec& packet) {
    return proto::ConstView<proto::Bth>{static_cast<const std::uint8_t*>(packet.iov_base)}.get<proto::Bth::DestQp>();
  };
  return std::min(a.iov_len, b.iov_len) >= proto::Bth::kSize && dest_qp(a) == dest_qp(b);
}

bool same_address(const SocketAddress& a, const SocketAddress& b) {
  return a.size == b.size && std::memcmp(a.get(), b.get(), a.size) == 0;
}

}  // namespace

SocketPort::SocketPort(std::vector<ReceiveSocket> receivers, std::string reason, Trains trains)
    : UdpPort(std::move(receivers), {.engine = "socket",
                                     .reason = std::move(reason),
                                     .features = trains == Trains::kYes ? "sendmmsg recvmmsg udp-gso udp-gro"
                                                                        : "sendmmsg recvmmsg zero-udp-checksum",
                                     .receive_buffer_bytes = 0}),
      queues_(SendSockets::kMax),
      send_trains_(trains == Trains::kYes),
      receives_(send_trains_ ? kTrainsReceived : kBatch, send_trains_ ? std::size_t{1} << 16 : kReceiveSize) {
  // To send takes no memory, which the program may have used up.
  active_.reserve(SendSockets::kMax);
  for (std::vector<FrameIndex>& queue : queues_) queue.reserve(kFrames);
  if (!send_trains_) return;
  train_bytes_.reserve(kFrames);
  for (ReceiveSocket& socket : receivers_) receive_trains(socket.fd.get());
  senders_.set_on_change([this](SendIndex index, int fd) {
    if (fd >= 0) allow_trains(fd, senders_[index].local);
  });
}

void SocketPort::enqueue(FrameIndex frame) {
  const SendIndex index = outgoing_[frame.value].index;
  std::vector<FrameIndex>& queue = queues_[index.value];
  if (queue.empty()) active_.push_back(index);
  queue.push_back(frame);
}

void SocketPort::flush() {
  std::erase_if(active_, [this](SendIndex index) { return send_queue_of(index); });
  set_blocked(!active_.empty());
}

/// Sends what is queued for one socket; true when nothing is left.
bool SocketPort::send_queue_of(SendIndex index) {
  std::vector<FrameIndex>& queue = queues_[index.value];
  std::size_t done = 0;
  while (done < queue.size()) {
    const std::size_t count = prepare_to_send(std::span(queue).subspan(done));
    const int result =
        ::sendmmsg(senders_[index].fd.get(), send_batch_.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
    ++counters_.system_calls;
    if (result < 0 && is_full(errno)) break;  // Stays queued, in order.
    if (result < 0 && batch_packets_[0] > 1 && (errno == EIO || errno == EINVAL)) {
      send_trains_ = false;  // Not on this kernel, or not through that interface: one by one then.
      continue;
    }
    if (result < 0) {
      refused(queue[done++], errno);  // sendmmsg() reports an error only for its first message.
      continue;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(result); ++i) {
      for (std::size_t packet = 0; packet < batch_packets_[i]; ++packet) sent(queue[done++]);
    }
  }
  queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(done));
  return queue.empty();
}

/// Puts the front of `queue` into `send_batch_`; returns how many messages that is.
std::size_t SocketPort::prepare_to_send(std::span<const FrameIndex> queue) {
  std::size_t count = 0;
  train_bytes_.clear();
  for (; count < kBatch && !queue.empty(); ++count) {
    const Outgoing& first = outgoing_[queue.front().value];
    const std::size_t packets = send_trains_ ? train_length(queue) : 1;
    msghdr& message = send_batch_[count].msg_hdr;
    message = first.message;
    if (packets > 1) {
      message.msg_iov = train_bytes_.data() + train_bytes_.size();
      message.msg_iovlen = packets;
      message.msg_control = train_controls_[count].bytes.data();
      message.msg_controllen = train_controls_[count].fill_train(static_cast<std::uint16_t>(first.bytes.iov_len));
      for (const FrameIndex frame : queue.first(packets)) train_bytes_.push_back(outgoing_[frame.value].bytes);
    }
    batch_packets_[count] = packets;
    queue = queue.subspan(packets);
  }
  return count;
}

/// How many packets at the front of `queue` can go as one train.
std::size_t SocketPort::train_length(std::span<const FrameIndex> queue) {
  const Outgoing& first = outgoing_[queue.front().value];
  if (first.message.msg_controllen != 0) return 1;  // Its header fields are its own.
  std::size_t bytes = first.bytes.iov_len;
  std::size_t length = 1;
  while (length < std::min(queue.size(), kTrainPackets)) {
    const Outgoing& next = outgoing_[queue[length].value];
    bytes += next.bytes.iov_len;
    if (bytes > kTrainBytes || next.bytes.iov_len > first.bytes.iov_len || next.message.msg_controllen != 0 ||
        !same_dest_qp(first.bytes, next.bytes) || !same_address(first.to, next.to)) {
      break;
    }
    ++length;
    if (next.bytes.iov_len < first.bytes.iov_len) break;
  }
  return length;
}

std::size_t SocketPort::exchange(DatagramSink& sink, std::size_t rx_budget) {
  if (!active_.empty()) flush();
  std::size_t received = 0;
  for (std::size_t i = 0; i < receivers_.size() && received < rx_budget; ++i) {
    received += receive_from(receivers_[(next_receiver_ + i) % receivers_.size()], sink, rx_budget - received);
  }
  if (received >= rx_budget) ++next_receiver_;  // One busy address must not starve the others.
  received += rx_budget > 0 ? receive_groups(sink, rx_budget - std::min(received, rx_budget)) : 0;
  count_overruns();
  return received;
}

std::size_t SocketPort::receive_from(ReceiveSocket& socket, DatagramSink& sink, std::size_t budget) {
  const std::uint64_t before = counters_.received_packets;
  std::size_t received = 0;
  while (received < budget) {
    const std::size_t wanted = std::min(budget - received, receives_.count());
    const std::size_t got = receives_.receive(socket.fd.get(), wanted, [&](const msghdr& message, Bytes payload) {
      deliver(socket, message, payload, sink);
    });
    ++counters_.system_calls;
    received = static_cast<std::size_t>(counters_.received_packets - before);
    if (got < wanted) break;
  }
  return received;
}

}  // namespace uroce::engine
