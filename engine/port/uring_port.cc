// SPDX-License-Identifier: Apache-2.0
#include "engine/port/uring_port.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace uroce::engine {
namespace {

// A receive buffer: io_uring_recvmsg_out, sender's address, control messages, packet. The packet starts on a cache
// line.
constexpr std::size_t kPacketOffset = 128;
constexpr std::size_t kNameSize = 32;
constexpr std::size_t kControlSize = kPacketOffset - sizeof(io_uring_recvmsg_out) - kNameSize;
static_assert(kNameSize >= sizeof(sockaddr_in6) && kControlSize >= kReceiveControlSize);

// What a completion belongs to: frames count from 0, receivers from here.
constexpr std::uint64_t kReceiverTag = 1u << 16;

/// Makes room for `count` fixed files. liburing raises RLIMIT_NOFILE where that is too low, and leaves it so; it is the
/// program's.
int make_room_for_files(io_uring* ring, unsigned count) {
  rlimit before{}, after{};
  const bool is_known = ::getrlimit(RLIMIT_NOFILE, &before) == 0;
  const int result = io_uring_register_files_sparse(ring, count);
  if (is_known && ::getrlimit(RLIMIT_NOFILE, &after) == 0 && after.rlim_cur != before.rlim_cur)
    ::setrlimit(RLIMIT_NOFILE, &before);
  return result;
}

}  // namespace

Result<std::unique_ptr<UringPort>, SetupError> UringPort::open(std::vector<ReceiveSocket>& receivers,
                                                               std::string reason) {
  if (receivers.size() > kAddressesMax) {
    return Err{SetupError{EINVAL, "a NIC can have at most " + std::to_string(kAddressesMax) + " addresses"}};
  }
  Result<Ring, SetupError> ring = Ring::open(kEntries, kCompletions);
  if (!ring) return Err{ring.error()};
  const int files = make_room_for_files(ring->get(), SendSockets::kMax);
  if (files < 0) {
    return Err{SetupError{-files, "io_uring: can't register " + std::to_string(SendSockets::kMax) +
                                      " files; raise RLIMIT_NOFILE (ulimit -n)"}};
  }
  Result<BufferRing, SetupError> buffers = BufferRing::open(*ring, kReceiveBuffers, kPacketOffset + kReceiveSize);
  if (!buffers) return Err{buffers.error()};
  PortInfo info{.engine = "io_uring",
                .reason = std::move(reason),
                .features = "send-to multishot-recv buf-ring fixed-files zero-udp-checksum",
                .receive_buffer_bytes = 0};
  return std::unique_ptr<UringPort>(
      new UringPort(std::move(*ring), std::move(*buffers), std::move(receivers), std::move(info)));
}

UringPort::UringPort(Ring ring, BufferRing buffers, std::vector<ReceiveSocket> receivers, PortInfo info)
    : UdpPort(std::move(receivers), std::move(info)),
      ring_(std::move(ring)),
      buffers_(std::move(buffers)),
      shots_(receivers_.size()) {
  receive_layout_.msg_namelen = kNameSize;
  receive_layout_.msg_controllen = kControlSize;
  queue_.reserve(kFrames);
  full_.reserve(kFrames);
  // Only send sockets become fixed files. A ring lets go of its files up to 40 ms after its process died; a receive
  // socket among them would keep the address taken for a program that is started again at once.
  senders_.set_on_change([this](SendIndex index, int fd) {
    is_fixed_[index.value] = io_uring_register_files_update(ring_.get(), index.value, &fd, 1) == 1;
  });
}

void UringPort::flush() {
  if (may_send_alone()) return send_alone();
  // Where the kernel has refused something before, exchange() submits that: receives may be among it.
  if (!queue_.empty() && is_ring_empty()) submit_and_reap(nullptr);
}

/// Sends the only packet that is queued without the ring. By the system call: in programs that look for RDMA devices by
/// netlink, as those with librdmacm do, our own sendmsg() asks the kernel each time whose socket it is.
void UringPort::send_alone() {
  full_.clear();
  const FrameIndex frame = queue_.front();
  const Outgoing& out = outgoing_[frame.value];
  const long result = ::syscall(SYS_sendmsg, senders_[out.index].fd.get(), &out.message, MSG_DONTWAIT);
  ++counters_.system_calls;
  on_sent(frame, result < 0 ? -errno : 0);
  queue_ = full_;
  set_blocked(!queue_.empty());
}

std::size_t UringPort::exchange(DatagramSink& sink, std::size_t rx_budget) {
  const std::uint64_t before = counters_.received_packets;
  const auto received = [&] { return static_cast<std::size_t>(counters_.received_packets - before); };
  const auto room = [&] { return rx_budget - std::min(received(), rx_budget); };
  bool works = true;
  if (may_send_alone()) send_alone();
  if (queue_.empty() && is_ring_empty()) {
    for (std::size_t i = 0; i < shots_.size(); ++i) shots_[i].maybe_more = look(i, sink, room());
  } else {
    for (Shot& shot : shots_) shot.maybe_more = rx_budget > 0;
    works = submit_and_reap(&sink);
  }
  while (works && room() > 0 && std::any_of(shots_.begin(), shots_.end(), [](const Shot& s) { return s.maybe_more; })) {
    works = submit_and_reap(&sink);
  }
  const std::size_t count = received() + (rx_budget > 0 ? receive_groups(sink, room()) : 0);
  count_overruns();
  return count;
}

/// Sends all that is queued; receives once from every receiver that may have packets if there is a `sink`. Returns
/// whether the kernel took everything: it does not when it is out of memory, or the program has closed our descriptors.
bool UringPort::submit_and_reap(DatagramSink* sink) {
  full_.clear();
  bool stuck = false;
  bool more_to_send = true;
  while (more_to_send) {
    queue_sends();
    more_to_send = !queue_.empty();
    if (!more_to_send && sink != nullptr) queue_receives();
    if (io_uring_sq_ready(ring_.get()) == 0) break;
    ring_.submit();
    ++counters_.system_calls;
    stuck = io_uring_sq_ready(ring_.get()) != 0;
    ring_.reap([&](const io_uring_cqe& cqe) {
      if (cqe.user_data < kReceiverTag) {
        on_sent(FrameIndex{static_cast<std::uint32_t>(cqe.user_data)}, cqe.res);
      } else {
        on_received(static_cast<std::size_t>(cqe.user_data - kReceiverTag), cqe, sink);
      }
    });
    if (stuck) break;
  }
  queue_.insert(queue_.begin(), full_.begin(), full_.end());
  set_blocked(stuck || !queue_.empty());
  return !stuck;
}

/// Takes the first packets of a receiver without the ring. Returns whether there may be more.
bool UringPort::look(std::size_t receiver, DatagramSink& sink, std::size_t rx_budget) {
  if (rx_budget == 0) return false;
  ReceiveSocket& socket = receivers_[receiver];
  ++counters_.system_calls;
  const auto take = [&](const msghdr& message, Bytes payload) { deliver(socket, message, payload, sink); };
  return looks_.receive(socket.fd.get(), rx_budget, take) == looks_.count();
}

void UringPort::queue_sends() {
  std::size_t taken = 0;
  // Room is left for the receives, which go along in the same system call.
  while (taken < queue_.size() && io_uring_sq_space_left(ring_.get()) > shots_.size()) {
    const FrameIndex frame = queue_[taken++];
    Outgoing& out = outgoing_[frame.value];
    io_uring_sqe* sqe = ring_.next_sqe();
    // The kernel may have had no memory for it.
    const bool is_fixed = is_fixed_[out.index.value];
    const int file = is_fixed ? out.index.value : senders_[out.index].fd.get();
    if (out.message.msg_controllen == 0) {
      io_uring_prep_send(sqe, file, out.bytes.iov_base, out.bytes.iov_len, MSG_DONTWAIT);
      io_uring_prep_send_set_addr(sqe, out.to.get(), static_cast<std::uint16_t>(out.to.size));
    } else {
      io_uring_prep_sendmsg(sqe, file, &out.message, MSG_DONTWAIT);
    }
    if (is_fixed) sqe->flags |= IOSQE_FIXED_FILE;
    sqe->user_data = frame.value;
  }
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(taken));
}

void UringPort::queue_receives() {
  for (std::size_t i = 0; i < shots_.size(); ++i) {
    Shot& shot = shots_[i];
    if (!shot.maybe_more || shot.armed) continue;
    io_uring_sqe* sqe = ring_.next_sqe();
    if (sqe == nullptr) return;
    io_uring_prep_recvmsg_multishot(sqe, receivers_[i].fd.get(), &receive_layout_, MSG_DONTWAIT);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = BufferRing::kGroup;
    sqe->user_data = kReceiverTag + i;
    shot = {.armed = true, .received = 0, .maybe_more = false};
  }
}

void UringPort::on_sent(FrameIndex frame, int result) {
  if (result >= 0) {
    sent(frame);
  } else if (is_full(-result)) {
    full_.push_back(frame);
  } else {
    refused(frame, -result);
  }
}

void UringPort::on_received(std::size_t receiver, const io_uring_cqe& cqe, DatagramSink* sink) {
  Shot& shot = shots_[receiver];
  if ((cqe.flags & IORING_CQE_F_MORE) == 0) {
    shot.armed = false;
    // A result of its own in the last completion: an empty datagram, which ends a multishot receive as well.
    shot.maybe_more = cqe.res >= 0 || shot.received >= kShot || cqe.res == -ENOBUFS;
  }
  if ((cqe.flags & IORING_CQE_F_BUFFER) == 0) return;
  struct Lent {  // Also when the sink throws.
    ~Lent() { from.give_back(id); }
    const BufferRing& from;
    std::uint16_t id;
  } const lent{buffers_, BufferRing::id_of(cqe)};
  std::uint8_t* buffer = buffers_.buffer(lent.id);
  io_uring_recvmsg_out* out = cqe.res < 0 ? nullptr : io_uring_recvmsg_validate(buffer, cqe.res, &receive_layout_);
  if (out != nullptr && sink != nullptr) {
    ++shot.received;
    msghdr message{};
    message.msg_name = io_uring_recvmsg_name(out);
    message.msg_namelen = out->namelen;
    message.msg_control = buffer + sizeof *out + kNameSize;
    message.msg_controllen = out->controllen;
    deliver(receivers_[receiver], message,
            Bytes{buffer + kPacketOffset, static_cast<std::size_t>(cqe.res) - kPacketOffset}, *sink);
  }
}

void UringPort::abandon_after_fork() {
  senders_.set_on_change({});
  buffers_.abandon();
  ring_.abandon();
  UdpPort::abandon_after_fork();
}

}  // namespace uroce::engine
