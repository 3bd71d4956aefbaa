// Lesson 06: many queues, no lock. Four threads have a socket and a ring each; the kernel looks at the first byte of a
// datagram and chooses the socket. A NIC does this with queue pairs: the packet says which queue it belongs to.
#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>
#include <vector>

#include "tools/learn/ring.h"

namespace {

constexpr unsigned kQueues = 4;
constexpr int kDatagrams = 100;

/// One of several sockets with the same address and port. The first one chooses the port.
int join_group(sockaddr_in& address) {
  const int fd = learn::check_errno(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
  const int on = 1;
  learn::check_errno(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), "SO_REUSEPORT");
  learn::check_errno(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
  socklen_t size = sizeof address;
  learn::check_errno(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  return fd;
}

/// Two instructions that the kernel runs for each datagram: load byte 0 of the payload, return it as the socket's
/// index.
void steer_by_first_byte(int fd) {
  std::array<sock_filter, 2> code{sock_filter{BPF_LD | BPF_B | BPF_ABS, 0, 0, 0},
                                  sock_filter{BPF_RET | BPF_A, 0, 0, 0}};
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  learn::check_errno(setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program),
                     "SO_ATTACH_REUSEPORT_CBPF");
}

struct Count {
  int mine = 0, others = 0;
};

/// One queue: its own ring, its own socket, nothing shared. Ends with a datagram of one byte.
void serve(int fd, unsigned queue, Count& count) {
  learn::Ring ring(8);
  std::array<std::uint8_t, 64> buffer{};
  for (;;) {
    io_uring_prep_recv(ring.sqe(), fd, buffer.data(), buffer.size(), 0);
    ring.submit_and_wait(1);
    io_uring_cqe* cqe = ring.wait();
    const int size = learn::check(cqe->res, "recv");
    ring.seen(cqe);
    if (size == 1) return;
    ++(buffer[0] == queue ? count.mine : count.others);
  }
}

}  // namespace

int main() {
  { learn::Ring probe(1); }  // Where io_uring is forbidden, say so before threads start.
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  std::array<int, kQueues> sockets{};
  for (int& fd : sockets) fd = join_group(address);  // In this order: the index that the program returns.
  steer_by_first_byte(sockets[0]);

  std::array<Count, kQueues> counts;
  std::vector<std::thread> threads;
  for (unsigned q = 0; q < kQueues; ++q) threads.emplace_back(serve, sockets[q], q, std::ref(counts[q]));

  const int sender = learn::check_errno(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
  learn::check_errno(connect(sender, reinterpret_cast<sockaddr*>(&address), sizeof address), "connect");
  std::array<std::uint8_t, 16> datagram{};
  const auto send_to = [&](unsigned queue, std::size_t size) {
    datagram[0] = static_cast<std::uint8_t>(queue);
    learn::check_errno(static_cast<int>(send(sender, datagram.data(), size, 0)), "send");
  };
  for (int i = 0; i < kDatagrams; ++i) {
    for (unsigned q = 0; q < kQueues; ++q) send_to(q, datagram.size());
  }
  for (unsigned q = 0; q < kQueues; ++q) send_to(q, 1);  // The end.

  for (unsigned q = 0; q < kQueues; ++q) {
    threads[q].join();
    std::printf("queue %u: %d datagrams of its own, %d of others\n", q, counts[q].mine, counts[q].others);
    close(sockets[q]);
  }
  std::printf("one port, %u queues, no lock\n", kQueues);
  close(sender);
}
