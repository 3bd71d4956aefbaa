// Lesson 05: one receive for ever. A multishot receive stays armed and takes its buffers from a ring of buffers that we
// fill. An RDMA receive queue works alike: when no buffer is left, the sender hears about it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "tools/learn/ring.h"

namespace {

constexpr unsigned kBuffers = 4;
constexpr int kGroup = 7;  // Our name for this ring of buffers; several may exist.
using Buffer = std::array<char, 64>;

class BufferRing {
 public:
  explicit BufferRing(learn::Ring& ring) : ring_(ring) {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) learn::check(-errno, "mmap");
    entries_ = static_cast<io_uring_buf_ring*>(memory);
    io_uring_buf_ring_init(entries_);
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<std::uintptr_t>(memory);
    registration.ring_entries = kBuffers;
    registration.bgid = kGroup;
    learn::check(io_uring_register_buf_ring(&ring_, &registration, 0), "io_uring_register_buf_ring");
  }
  ~BufferRing() {
    io_uring_unregister_buf_ring(&ring_, kGroup);
    munmap(entries_, kBytes);
  }
  /// Lends buffer `id` to the kernel. Costs no system call.
  void give(unsigned short id) {
    io_uring_buf_ring_add(entries_, buffers_[id].data(), sizeof(Buffer), id, io_uring_buf_ring_mask(kBuffers), 0);
    io_uring_buf_ring_advance(entries_, 1);
  }
  const char* text(unsigned id) const { return buffers_[id].data(); }

 private:
  static constexpr std::size_t kBytes = kBuffers * sizeof(io_uring_buf);
  learn::Ring& ring_;
  io_uring_buf_ring* entries_ = nullptr;
  std::array<Buffer, kBuffers> buffers_{};
};

void arm(learn::Ring& ring, int fd) {
  io_uring_sqe* sqe = ring.sqe();
  io_uring_prep_recv_multishot(sqe, fd, nullptr, 0, 0);
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = kGroup;
  std::printf("armed: one SQE (the kernel took %d)\n", learn::check(io_uring_submit(&ring), "io_uring_submit"));
}

/// Prints completions until `n` have come or the receive is no longer armed; returns the buffers that were used.
unsigned take(learn::Ring& ring, const BufferRing& buffers, unsigned n) {
  for (unsigned taken = 0; taken < n; ++taken) {
    io_uring_cqe* cqe = ring.wait();
    const int result = cqe->res;
    const unsigned flags = cqe->flags;
    ring.seen(cqe);
    if (result < 0) {
      std::printf("  res %d (%s), no F_MORE: the receive is over\n", result, std::strerror(-result));
      return taken;
    }
    const unsigned id = flags >> IORING_CQE_BUFFER_SHIFT;
    std::printf("  res %d, buffer %u: \"%s\"%s\n", result, id, buffers.text(id),
                (flags & IORING_CQE_F_MORE) ? ", F_MORE" : "");
  }
  return n;
}

}  // namespace

int main() {
  std::array<int, 2> pair{};  // Datagrams, as UDP, but none is lost: the lesson is the same each time.
  learn::check_errno(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair.data()), "socketpair");
  learn::Ring ring(8);
  BufferRing buffers(ring);
  for (unsigned short id = 0; id < kBuffers; ++id) buffers.give(id);

  arm(ring, pair[0]);
  for (int i = 1; i <= 6; ++i) {
    std::array<char, 32> text{};
    const int size = std::snprintf(text.data(), text.size(), "datagram %d", i) + 1;
    learn::check_errno(static_cast<int>(send(pair[1], text.data(), static_cast<std::size_t>(size), 0)), "send");
  }
  std::printf("six datagrams, four buffers:\n");
  const unsigned used = take(ring, buffers, 6);

  // The two others wait in the socket. A NIC has no such place: there the sender is told to wait (lesson 24).
  std::printf("give %u buffers back, and arm again\n", used);
  for (unsigned short id = 0; id < used; ++id) buffers.give(id);
  arm(ring, pair[0]);
  take(ring, buffers, 2);
  close(pair[0]);
  close(pair[1]);
}
