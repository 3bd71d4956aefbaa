#include "engine/socket_port.h"

#include <algorithm>

namespace uroce::engine {

Result<std::unique_ptr<SocketPort>, SetupError> SocketPort::open(std::span<const proto::Gid> addresses,
                                                                 std::string reason) {
  auto receivers = open_receivers(addresses);
  if (!receivers) return Err{receivers.error()};
  PortInfo info{.engine = "socket",
                .reason = std::move(reason),
                .features = "sendmmsg recvmmsg zero-udp-checksum",
                .receive_buffer_bytes = 0};
  return std::unique_ptr<SocketPort>(new SocketPort(std::move(*receivers), std::move(info)));
}

SocketPort::SocketPort(std::vector<ReceiveSocket> receivers, PortInfo info)
    : UdpPort(std::move(receivers), std::move(info)),
      queues_(SendSockets::kMax),
      receive_memory_(kBatch * kReceiveSize) {
  active_.reserve(SendSockets::kMax);
  for (std::size_t i = 0; i < kBatch; ++i) {
    receive_buffers_[i].bytes = {.iov_base = receive_memory_.data() + i * kReceiveSize, .iov_len = kReceiveSize};
    prepare_to_receive(i);
  }
}

/// The kernel overwrites the lengths of the entries that it used, and only of those.
void SocketPort::prepare_to_receive(std::size_t index) {
  ReceiveBuffer& buffer = receive_buffers_[index];
  msghdr& message = receive_batch_[index].msg_hdr;
  message = msghdr{};
  message.msg_name = &buffer.from.v6;
  message.msg_namelen = sizeof buffer.from.v6;
  message.msg_iov = &buffer.bytes;
  message.msg_iovlen = 1;
  message.msg_control = buffer.control.data();
  message.msg_controllen = buffer.control.size();
}

void SocketPort::enqueue(FrameIndex frame) {
  const SendSlot slot = outgoing_[frame.value].slot;
  std::vector<FrameIndex>& queue = queues_[slot.value];
  if (queue.empty()) active_.push_back(slot);
  queue.push_back(frame);
}

void SocketPort::flush() {
  std::erase_if(active_, [this](SendSlot slot) { return send_queue_of(slot); });
  set_blocked(!active_.empty());
}

/// Sends what is queued for one socket; true when nothing is left.
bool SocketPort::send_queue_of(SendSlot slot) {
  std::vector<FrameIndex>& queue = queues_[slot.value];
  std::size_t done = 0;
  while (done < queue.size()) {
    const std::size_t count = std::min(queue.size() - done, kBatch);
    for (std::size_t i = 0; i < count; ++i) send_batch_[i].msg_hdr = outgoing_[queue[done + i].value].message;
    const int result =
        ::sendmmsg(senders_[slot].fd.get(), send_batch_.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
    ++counters_.system_calls;
    if (result < 0 && is_full(errno)) break;  // Stays queued, in order.
    if (result < 0) {
      refused(queue[done++]);  // sendmmsg() reports an error only for its first message.
      continue;
    }
    for (int i = 0; i < result; ++i) sent(queue[done++]);
  }
  queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(done));
  return queue.empty();
}

std::size_t SocketPort::exchange(DatagramSink& sink, std::size_t rx_budget) {
  if (!active_.empty()) flush();
  std::size_t received = 0;
  for (std::size_t i = 0; i < receivers_.size() && received < rx_budget; ++i) {
    received += receive_from(receivers_[(next_receiver_ + i) % receivers_.size()], sink, rx_budget - received);
  }
  if (received >= rx_budget) ++next_receiver_;  // One busy address must not starve the others.
  return received;
}

std::size_t SocketPort::receive_from(ReceiveSocket& socket, DatagramSink& sink, std::size_t budget) {
  std::size_t received = 0;
  while (received < budget) {
    const std::size_t count = std::min(budget - received, kBatch);
    const int result =
        ::recvmmsg(socket.fd.get(), receive_batch_.data(), static_cast<unsigned>(count), MSG_DONTWAIT, nullptr);
    ++counters_.system_calls;
    const std::size_t got = result > 0 ? static_cast<std::size_t>(result) : 0;
    for (std::size_t i = 0; i < got; ++i) {
      const mmsghdr& message = receive_batch_[i];
      deliver(socket, message.msg_hdr, Bytes{receive_memory_.data() + i * kReceiveSize, message.msg_len}, sink);
      prepare_to_receive(i);
    }
    received += got;
    if (got < count) break;
  }
  return received;
}

}  // namespace uroce::engine
