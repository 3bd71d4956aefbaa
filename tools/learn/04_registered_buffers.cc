// Lesson 04: say once what will be used often. Registered files and buffers spare the kernel a look-up per operation;
// zero-copy send spares it the copy, and answers twice. Memory regions of RDMA are the same idea, taken further.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "tools/learn/ring.h"

namespace {

int udp_socket(sockaddr_in& address) {
  const int fd = learn::check_errno(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
  address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  learn::check_errno(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
  socklen_t size = sizeof address;
  learn::check_errno(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  return fd;
}

enum class Way { kPlain, kZeroCopy };

/// One send; returns after its last completion. The socket is entry 0 of the registered files.
void send_one(learn::Ring& ring, std::vector<std::uint8_t>& buffer, std::size_t size, Way way, bool talk) {
  io_uring_sqe* sqe = ring.sqe();
  if (way == Way::kPlain) {
    io_uring_prep_send(sqe, 0, buffer.data(), size, 0);
  } else {
    io_uring_prep_send_zc_fixed(sqe, 0, buffer.data(), size, 0, 0, /*buf_index=*/0);
  }
  sqe->flags |= IOSQE_FIXED_FILE;
  ring.submit_and_wait(1);
  for (bool more = true; more;) {
    io_uring_cqe* cqe = ring.wait();
    more = (cqe->flags & IORING_CQE_F_MORE) != 0;
    if (talk) {
      std::printf("  completion: res %d%s%s\n", cqe->res, more ? ", F_MORE: the buffer is still in use" : "",
                  (cqe->flags & IORING_CQE_F_NOTIF) ? ", F_NOTIF: the buffer is yours again" : "");
    }
    if (cqe->res < 0) learn::check(cqe->res, "send");
    ring.seen(cqe);
  }
}

double microseconds_per_send(learn::Ring& ring, std::vector<std::uint8_t>& buffer, std::size_t size, Way way) {
  constexpr int kSends = 500;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kSends; ++i) send_one(ring, buffer, size, way, false);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
  return took.count() / kSends;
}

}  // namespace

int main() {
  sockaddr_in to{}, from{};
  const int receiver = udp_socket(to), sender = udp_socket(from);
  learn::check_errno(connect(sender, reinterpret_cast<sockaddr*>(&to), sizeof to), "connect");
  learn::Ring ring(8);

  // Fixed files: later the SQE names an index, and IOSQE_FIXED_FILE.
  learn::check(io_uring_register_files(&ring, &sender, 1), "io_uring_register_files");
  std::printf("registered: file 0 is the socket\n");

  // Registered buffers: the kernel pins the pages once. Compare ibv_reg_mr, which gives an lkey instead of an index.
  std::vector<std::uint8_t> buffer(60000);
  const iovec part{buffer.data(), buffer.size()};
  learn::check(io_uring_register_buffers(&ring, &part, 1), "io_uring_register_buffers");
  std::printf("registered: buffer 0 has %zu bytes\n", buffer.size());

  std::printf("plain send, 1000 bytes:\n");
  send_one(ring, buffer, 1000, Way::kPlain, true);
  std::printf("zero-copy send, 1000 bytes:\n");
  send_one(ring, buffer, 1000, Way::kZeroCopy, true);

  // Nobody reads: the receiver's buffer is full soon, and UDP drops. The cost of sending is what we want to see.
  for (std::size_t size : {std::size_t{64}, std::size_t{4096}, std::size_t{60000}}) {
    const double plain = microseconds_per_send(ring, buffer, size, Way::kPlain);
    const double zero_copy = microseconds_per_send(ring, buffer, size, Way::kZeroCopy);
    std::printf("%5zu bytes: plain ~%.1f us, zero-copy ~%.1f us\n", size, plain, zero_copy);
  }
  close(sender);
  close(receiver);
}
