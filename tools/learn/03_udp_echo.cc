// Lesson 03: a UDP echo server and its client, both on io_uring. RoCEv2 is UDP, so this is how uroce moves its packets:
// the more datagrams one system call carries, the cheaper each one is.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <thread>

#include "tools/learn/ring.h"

namespace {

constexpr unsigned kMaxBatch = 32;
constexpr int kDatagrams = 1024;
using Datagram = std::array<std::uint8_t, 64>;

/// A UDP socket on 127.0.0.1 with a port that the kernel chooses.
int open_socket(sockaddr_in& address) {
  const int fd = learn::check_errno(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
  address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  learn::check_errno(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
  socklen_t size = sizeof address;
  learn::check_errno(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  return fd;
}

/// Echoes until an empty datagram comes. Each slot is a receive, then a send, then a receive again.
void serve(int fd) {
  struct Slot {
    Datagram data;
    sockaddr_in from;
    iovec part;
    msghdr message;
    bool sending;
  };
  static std::array<Slot, kMaxBatch> slots;
  learn::Ring ring(2 * kMaxBatch);
  const auto receive_into = [&](Slot& slot) {
    slot.part = {slot.data.data(), slot.data.size()};
    slot.message = {.msg_name = &slot.from,
                    .msg_namelen = sizeof slot.from,
                    .msg_iov = &slot.part,
                    .msg_iovlen = 1,
                    .msg_control = nullptr,
                    .msg_controllen = 0,
                    .msg_flags = 0};
    slot.sending = false;
    io_uring_sqe* sqe = ring.sqe();
    io_uring_prep_recvmsg(sqe, fd, &slot.message, 0);
    io_uring_sqe_set_data(sqe, &slot);
  };
  for (Slot& slot : slots) receive_into(slot);
  for (;;) {
    ring.submit_and_wait(1);
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring, &cqe) == 0) {
      Slot& slot = *static_cast<Slot*>(io_uring_cqe_get_data(cqe));
      const int bytes = cqe->res;
      ring.seen(cqe);
      if (slot.sending) {
        receive_into(slot);
        continue;
      }
      if (bytes <= 0) return;  // The empty datagram; the ring cancels the rest.
      slot.part.iov_len = static_cast<std::size_t>(bytes);
      slot.sending = true;
      io_uring_sqe* sqe = ring.sqe();
      io_uring_prep_sendmsg(sqe, fd, &slot.message, 0);
      io_uring_sqe_set_data(sqe, &slot);
    }
  }
}

/// Sends kDatagrams in batches and takes the echoes: one system call submits a batch's sends and receives.
void measure(learn::Ring& ring, int fd, unsigned batch) {
  static std::array<Datagram, kMaxBatch> out, in;
  int calls = 0, echoed = 0;
  const auto began = std::chrono::steady_clock::now();
  for (int sent = 0; sent < kDatagrams; sent += static_cast<int>(batch)) {
    for (unsigned i = 0; i < batch; ++i) {
      out[i][0] = static_cast<std::uint8_t>(i);
      io_uring_prep_recv(ring.sqe(), fd, in[i].data(), in[i].size(), 0);
      io_uring_prep_send(ring.sqe(), fd, out[i].data(), out[i].size(), 0);
    }
    ring.submit_and_wait(2 * batch);
    ++calls;
    for (unsigned i = 0; i < 2 * batch; ++i) {
      io_uring_cqe* cqe = ring.wait();
      echoed += cqe->res == static_cast<int>(sizeof(Datagram));
      ring.seen(cqe);
    }
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
  std::printf("batch of %2u: %d datagrams sent, %d echoed, %4d system calls, ~%.1f us per round trip\n", batch,
              kDatagrams, echoed - kDatagrams, calls, took.count() / kDatagrams);
}

}  // namespace

int main() {
  sockaddr_in server_address{}, client_address{};
  const int server = open_socket(server_address), client = open_socket(client_address);
  // On a connected socket, send and recv need no address.
  learn::check_errno(connect(client, reinterpret_cast<sockaddr*>(&server_address), sizeof server_address), "connect");
  learn::Ring ring(2 * kMaxBatch);
  std::thread echo(serve, server);
  for (unsigned batch : {1u, 8u, 32u}) measure(ring, client, batch);
  learn::check_errno(static_cast<int>(send(client, "", 0, 0)), "send");
  echo.join();
  close(client);
  close(server);
}
