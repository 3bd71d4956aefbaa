// SPDX-License-Identifier: Apache-2.0
#include "engine/port/ring.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <fstream>
#include <optional>

#include "engine/os/fd.h"

namespace uroce::engine {
namespace {

constexpr std::size_t kPageSize = 4096;
constexpr const char* kWayOut = "; or choose UROCE_ENGINE=socket";

/// kernel.io_uring_disabled (Linux 6.6): 1 = only for a group or CAP_SYS_ADMIN, 2 = for nobody.
int io_uring_disabled() {
  std::ifstream file("/proc/sys/kernel/io_uring_disabled");
  int value = 0;
  file >> value;
  return file ? value : 0;
}

SetupError setup_error(int error) {
  std::string sentence = "io_uring_setup: " + errno_text(error) + ": ";
  if (error == EPERM && io_uring_disabled() != 0) {
    sentence += "kernel.io_uring_disabled is " + std::to_string(io_uring_disabled()) +
                "; set it to 0 (sysctl kernel.io_uring_disabled=0)";
  } else if (error == EPERM) {
    sentence +=
        "a seccomp filter forbids it, as container runtimes do by default; allow io_uring_setup, io_uring_enter "
        "and io_uring_register in its profile";
  } else if (error == ENOMEM) {
    sentence += "not enough memory that may be locked; raise RLIMIT_MEMLOCK (ulimit -l)";
  } else if (error == EMFILE || error == ENFILE) {
    sentence += "too many open files; raise RLIMIT_NOFILE (ulimit -n)";
  } else {
    sentence += "this kernel's io_uring is missing or too old; Linux 6.1 or newer is needed";
  }
  return {error, sentence + kWayOut};
}

SetupError missing_feature(const char* feature, int error) {
  return {error, std::string("io_uring: ") + feature + " does not work here (" + errno_text(error) +
                     "); Linux 6.1 or newer is needed" + kWayOut};
}

/// A datagram socket that can send to itself, in no network: loopback may be down.
std::optional<Fd> open_self_test_socket(sockaddr_un& address, socklen_t& size) {
  Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  address = sockaddr_un{};
  address.sun_family = AF_UNIX;
  // The bare family asks for an abstract name that nobody else has (unix(7), "autobind").
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family) != 0) return {};
  size = sizeof address;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return fd;
}

/// Does once what the port does all day: a send with an address (Linux 6.1) and a multishot receive into a buffer ring
/// (6.0) with MSG_DONTWAIT, in one system call, after which everything must have completed.
std::optional<SetupError> self_test(const Ring& ring) {
  sockaddr_un address;
  socklen_t size = 0;
  const std::optional<Fd> fd = open_self_test_socket(address, size);
  if (!fd) return SetupError{errno, "can't open a socket: " + errno_text(errno)};
  Result<BufferRing, SetupError> buffers = BufferRing::open(ring, 4, 512);
  if (!buffers) return buffers.error();

  io_uring_sqe* sqe = ring.next_sqe();
  const char byte = 'u';
  io_uring_prep_send(sqe, fd->get(), &byte, 1, MSG_DONTWAIT);
  io_uring_prep_send_set_addr(sqe, reinterpret_cast<const sockaddr*>(&address), static_cast<std::uint16_t>(size));
  sqe->user_data = 0;
  sqe = ring.next_sqe();
  msghdr layout{};
  io_uring_prep_recvmsg_multishot(sqe, fd->get(), &layout, MSG_DONTWAIT);
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = BufferRing::kGroup;
  sqe->user_data = 1;
  ring.submit();

  int send_result = -ENODATA;
  std::array<int, 2> receive_results{-ENODATA, -ENODATA};
  std::size_t received = 0;
  ring.reap([&](const io_uring_cqe& cqe) {
    if (cqe.user_data == 0) send_result = cqe.res;
    if (cqe.user_data == 1 && received < receive_results.size()) receive_results[received++] = cqe.res;
  });
  io_uring_unregister_buf_ring(ring.get(), BufferRing::kGroup);
  if (send_result != 1) return missing_feature("sending to an address", send_result < 0 ? -send_result : EINVAL);
  if (receive_results[0] < 0) return missing_feature("multishot receive", -receive_results[0]);
  if (receive_results[1] != -EAGAIN) return missing_feature("receiving without waiting", EINVAL);
  return std::nullopt;
}

}  // namespace

Result<Ring, SetupError> Ring::open(unsigned entries, unsigned cq_entries) {
  OwnedRing owned = take_idle(entries, cq_entries);
  if (!owned) {
    auto fresh = std::make_unique<OpenRing>();
    io_uring_params params{};
    // COOP_TASKRUN: no interrupts for task work, of which there is none. SUBMIT_ALL: a refused packet does not hold up
    // those behind it.
    params.flags = IORING_SETUP_CQSIZE | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL;
    params.cq_entries = cq_entries;
    const int result = io_uring_queue_init_params(entries, &fresh->ring, &params);
    if (result < 0) return Err{setup_error(-result)};
    fresh->ring.ring_fd = fresh->ring.enter_ring_fd = above_standard(fresh->ring.ring_fd);
    if (fresh->ring.ring_fd < 0) return Err{setup_error(errno)};
    fresh->remember();
    owned.reset(fresh.release());
  }
  Ring ring{std::move(owned)};
  if (std::optional<SetupError> error = self_test(ring)) {
    ring.ring_.reset();  // Not for the next one to try.
    return Err{*error};
  }
  return ring;
}

Ring::~Ring() {
  if (!ring_ || io_uring_sq_ready(get()) != 0 || io_uring_cq_ready(get()) != 0) return;
  io_uring_unregister_files(get());
  io_uring_unregister_buf_ring(get(), BufferRing::kGroup);
  keep_idle(std::move(ring_));
}

void Ring::abandon() {
  if (ring_) leave_to_parent(std::move(ring_));
}

void BufferRing::Unmap::operator()(std::uint8_t* memory) const { ::munmap(memory, bytes); }

std::size_t BufferRing::entries_bytes(std::uint16_t count) {
  return (count * sizeof(io_uring_buf) + kPageSize - 1) / kPageSize * kPageSize;
}

Result<BufferRing, SetupError> BufferRing::open(const Ring& ring, std::uint16_t count, std::size_t size) {
  const std::size_t bytes = entries_bytes(count) + count * size;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Err{SetupError{errno, "can't map receive buffers: " + errno_text(errno)}};
  BufferRing buffers({static_cast<std::uint8_t*>(memory), Unmap{bytes}}, count, size);

  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uintptr_t>(memory);
  registration.ring_entries = count;
  registration.bgid = kGroup;
  const int result = io_uring_register_buf_ring(ring.get(), &registration, 0);
  if (result == -ENOMEM) return Err{setup_error(ENOMEM)};
  if (result < 0) return Err{missing_feature("a ring of receive buffers", -result)};
  io_uring_buf_ring_init(buffers.entries());
  for (std::uint16_t id = 0; id < count; ++id) buffers.give_back(id);
  return buffers;
}

void BufferRing::give_back(std::uint16_t id) const {
  io_uring_buf_ring_add(entries(), buffer(id), static_cast<unsigned>(size_), id, io_uring_buf_ring_mask(count_), 0);
  io_uring_buf_ring_advance(entries(), 1);
}

}  // namespace uroce::engine
