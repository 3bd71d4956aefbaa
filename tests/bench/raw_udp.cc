// SPDX-License-Identifier: Apache-2.0
// What a NIC over UDP sockets is measured against: two processes on loopback that exchange datagrams and look at none
// of their bytes. UDP checksums are off, as in RoCEv2; not those of trains, which the kernel forbids.
//
//   uroce_bench_udp blast    sendmmsg|io_uring|trains  BYTES SECONDS
//   uroce_bench_udp flood    sendmmsg|io_uring|trains  BYTES SECONDS
//   uroce_bench_udp pingpong spin|io_uring|blocking    BYTES SECONDS
//   uroce_bench_udp pairs    spin|io_uring|blocking    BYTES SECONDS
//
// blast: one side sends as fast as it can, in batches; a window of acknowledgements keeps the receiver's buffer from
// overflowing, so that what is counted has arrived. flood: without a window; what arrives is counted, the rest is lost.
// pingpong: one datagram to and fro. pairs: two of them, as RC sends with each message the ACK of the one before.
// Prints one line of JSON.
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/port/ring.h"
#include "tests/bench/latency.h"
#include "tests/bench/usage.h"

namespace uroce::bench {
namespace {

constexpr unsigned kBatch = 16;
constexpr std::uint64_t kWindow = 32;  ///< Datagrams in flight: fits the socket buffer of an unprivileged user.

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

/// A socket on a port of its own, and its address.
struct Socket {
  int fd = -1;
  sockaddr_in address{};

  Socket() : fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const int no_checksum = 1;
    if (fd < 0 || bind(fd, raw(), size) != 0 || getsockname(fd, raw(), &size) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &no_checksum, sizeof no_checksum) != 0) {
      die("socket");
    }
  }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&address); }
};

/// One end of the wire: sends and receives datagrams of `size` bytes, many in a system call.
class End {
 public:
  End(Socket& own, Socket& peer, std::size_t size) : own_(own), peer_(peer), buffer_(size) {}
  virtual ~End() = default;
  /// How many datagrams to send at once: at most kBatch.
  virtual unsigned batch() const { return kBatch; }
  virtual void send(unsigned count) = 0;
  /// Waits for at least one datagram and takes up to kBatch.
  virtual unsigned receive() = 0;
  void send_small(std::uint64_t value) { sendto(own_.fd, &value, sizeof value, 0, peer_.raw(), sizeof peer_.address); }
  std::uint64_t receive_small() {
    std::uint64_t value = 0;
    if (recv(own_.fd, &value, sizeof value, 0) < 0) die("recv");
    return value;
  }

 protected:
  Socket& own_;
  Socket& peer_;
  std::vector<char> buffer_;
};

/// sendmmsg and recvmmsg; for single datagrams that is sendto and recvfrom. `spin`: never sleeps.
class SocketEnd final : public End {
 public:
  SocketEnd(Socket& own, Socket& peer, std::size_t size, bool spin) : End(own, peer, size), spin_(spin) {
    for (unsigned i = 0; i < kBatch; ++i) {
      inbound_[i].resize(size);
      vectors_[i] = {inbound_[i].data(), size};
      received_[i].msg_hdr.msg_iov = &vectors_[i];
      received_[i].msg_hdr.msg_iovlen = 1;
    }
    one_ = {buffer_.data(), size};
    for (mmsghdr& message : sent_) {
      message.msg_hdr.msg_iov = &one_;
      message.msg_hdr.msg_iovlen = 1;
      message.msg_hdr.msg_name = peer.raw();
      message.msg_hdr.msg_namelen = sizeof peer.address;
    }
  }
  void send(unsigned count) override {
    if (sendmmsg(own_.fd, sent_.data(), count, 0) != static_cast<int>(count)) die("sendmmsg");
  }
  unsigned receive() override {
    for (;;) {
      const int n = recvmmsg(own_.fd, received_.data(), kBatch, spin_ ? MSG_DONTWAIT : MSG_WAITFORONE, nullptr);
      if (n > 0) return static_cast<unsigned>(n);
      if (!spin_ || errno != EAGAIN) die("recvmmsg");
    }
  }

 private:
  bool spin_;
  iovec one_{};
  std::array<mmsghdr, kBatch> sent_{}, received_{};
  std::array<iovec, kBatch> vectors_{};
  std::array<std::vector<char>, kBatch> inbound_;
};

/// As the NIC's offload mode: many datagrams pass the kernel as one message (UDP_SEGMENT), and arrive as one (UDP_GRO).
class TrainEnd final : public End {
 public:
  TrainEnd(Socket& own, Socket& peer, std::size_t size)
      : End(own, peer, size), train_(batch() * size), arrived_(kMost) {
    set(SOL_SOCKET, SO_NO_CHECK, 0);
    set(SOL_UDP, UDP_SEGMENT, static_cast<int>(size));
    set(SOL_UDP, UDP_GRO, 1);
  }
  unsigned batch() const override {
    return static_cast<unsigned>(std::min<std::size_t>(kBatch, kMost / buffer_.size()));
  }
  void send(unsigned count) override {
    const std::size_t bytes = count * buffer_.size();
    const ssize_t sent = sendto(own_.fd, train_.data(), bytes, 0, peer_.raw(), sizeof peer_.address);
    if (sent != static_cast<ssize_t>(bytes)) die("sendto a train");
  }
  unsigned receive() override {
    for (;;) {
      const ssize_t bytes = recv(own_.fd, arrived_.data(), arrived_.size(), MSG_DONTWAIT);
      if (bytes > 0) return static_cast<unsigned>(static_cast<std::size_t>(bytes) / buffer_.size());
      if (errno != EAGAIN) die("recv");
    }
  }

 private:
  static constexpr std::size_t kMost = 65507;  ///< Bytes in a UDP datagram over IPv4.
  void set(int level, int option, int value) const {
    if (setsockopt(own_.fd, level, option, &value, sizeof value) != 0) die("setsockopt for trains");
  }
  std::vector<char> train_, arrived_;
};

/// io_uring as the NIC uses it: nothing stays armed, one system call sends and receives. `spin`: never sleeps.
class UringEnd final : public End {
 public:
  UringEnd(Socket& own, Socket& peer, std::size_t size, bool spin)
      : End(own, peer, size),
        spin_(spin),
        ring_(must(engine::Ring::open(128, 512))),
        buffers_(must(engine::BufferRing::open(ring_, 64, size + 128))) {}

  void send(unsigned count) override {
    for (unsigned i = 0; i < count; ++i) {
      io_uring_sqe* sqe = ring_.next_sqe();
      io_uring_prep_send(sqe, own_.fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      io_uring_prep_send_set_addr(sqe, peer_.raw(), sizeof peer_.address);
      sqe->user_data = kSent;
    }
    if (spin_) return;  // Goes along with the next receive.
    ring_.submit();
    reap();
  }
  unsigned receive() override {
    for (;;) {
      pollfd readable{own_.fd, POLLIN, 0};
      if (!spin_) poll(&readable, 1, -1);
      io_uring_sqe* sqe = ring_.next_sqe();
      io_uring_prep_recv_multishot(sqe, own_.fd, nullptr, 0, MSG_DONTWAIT);
      sqe->flags |= IOSQE_BUFFER_SELECT;
      sqe->buf_group = engine::BufferRing::kGroup;
      sqe->user_data = kReceived;
      ring_.submit();
      if (const unsigned n = reap(); n > 0) return n;
    }
  }

 private:
  static constexpr std::uint64_t kSent = 0, kReceived = 1;
  template <class T>
  static T must(Result<T, engine::SetupError> result) {
    if (result.ok()) return std::move(*result);
    std::fprintf(stderr, "%s\n", result.error().sentence.c_str());
    std::_Exit(1);
  }
  unsigned reap() {
    unsigned received = 0;
    ring_.reap([&](const io_uring_cqe& cqe) {
      if (cqe.user_data == kSent && cqe.res < 0) die("send through io_uring");
      if ((cqe.flags & IORING_CQE_F_BUFFER) == 0) return;
      ++received;
      buffers_.give_back(engine::BufferRing::id_of(cqe));
    });
    return received;
  }

  bool spin_;
  engine::Ring ring_;
  engine::BufferRing buffers_;
};

std::unique_ptr<End> make_end(const std::string& via, Socket& own, Socket& peer, std::size_t size, bool pingpong) {
  if (via == "io_uring") return std::make_unique<UringEnd>(own, peer, size, pingpong);
  if (via == "trains") return std::make_unique<TrainEnd>(own, peer, size);
  return std::make_unique<SocketEnd>(own, peer, size, via == "spin");
}

[[noreturn]] void serve_blast(End& end) {
  for (std::uint64_t received = 0;;) end.send_small(received += end.receive());
}

/// A number that a process and its children share.
std::atomic<std::uint64_t>& shared_count() {
  void* const page =
      mmap(nullptr, sizeof(std::atomic<std::uint64_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) die("mmap");
  return *new (page) std::atomic<std::uint64_t>(0);
}

[[noreturn]] void serve_flood(End& end, std::atomic<std::uint64_t>& arrived) {
  for (;;) arrived.fetch_add(end.receive(), std::memory_order_relaxed);
}

void receive_all(End& end, unsigned count) {
  for (unsigned received = 0; received < count;) received += end.receive();
}

[[noreturn]] void serve_pingpong(End& end, unsigned count) {
  for (;;) {
    receive_all(end, count);
    end.send(count);
  }
}

nlohmann::json blast(End& end, double seconds) {
  std::uint64_t sent = 0, acknowledged = 0;
  const auto start = Clock::now();
  while (seconds_since(start) < seconds) {
    while (sent - acknowledged + end.batch() > kWindow) acknowledged = end.receive_small();
    end.send(end.batch());
    sent += end.batch();
  }
  return {{"packets_per_second", static_cast<double>(acknowledged) / seconds_since(start)}};
}

nlohmann::json flood(End& end, double seconds, const std::atomic<std::uint64_t>& arrived) {
  const auto start = Clock::now();
  while (seconds_since(start) < seconds) end.send(end.batch());
  return {{"packets_per_second", static_cast<double>(arrived.load(std::memory_order_relaxed)) / seconds_since(start)}};
}

nlohmann::json pingpong(End& end, double seconds, unsigned count) {
  std::vector<double> microseconds;
  const auto start = Clock::now();
  for (auto before = start; seconds_since(start) < seconds;) {
    end.send(count);
    receive_all(end, count);
    const auto after = Clock::now();
    microseconds.push_back(std::chrono::duration<double, std::micro>(after - before).count() / 2);
    before = after;
  }
  return latencies(std::move(microseconds));
}

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "usage: uroce_bench_udp blast|flood sendmmsg|io_uring|trains BYTES SECONDS\n"
               "       uroce_bench_udp pingpong|pairs spin|io_uring|blocking BYTES SECONDS\n");
  std::exit(64);
}

int run(const std::string& mode, const std::string& via, std::size_t size, double seconds) {
  const bool is_pingpong = mode == "pingpong" || mode == "pairs";
  const unsigned count = mode == "pairs" ? 2 : 1;
  std::atomic<std::uint64_t>& arrived = shared_count();
  Socket server, client;
  const pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) {
    const auto end = make_end(via, server, client, size, is_pingpong);
    if (mode == "flood") serve_flood(*end, arrived);
    is_pingpong ? serve_pingpong(*end, count) : serve_blast(*end);
  }
  const auto end = make_end(via, client, server, size, is_pingpong);
  nlohmann::json result = is_pingpong       ? pingpong(*end, seconds, count)
                          : mode == "flood" ? flood(*end, seconds, arrived)
                                            : blast(*end, seconds);
  kill(child, SIGKILL);
  rusage served{};
  wait4(child, nullptr, 0, &served);
  result["bytes"] = size;
  result["via"] = via;
  result["client_cpu_seconds"] = Usage::now().cpu_seconds;
  result["server_cpu_seconds"] = Usage::of(served).cpu_seconds;
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  if (argc != 5) uroce::bench::usage();
  const std::string mode = argv[1], via = argv[2];
  const bool known =
      ((mode == "blast" || mode == "flood") && (via == "sendmmsg" || via == "io_uring" || via == "trains")) ||
      ((mode == "pingpong" || mode == "pairs") && (via == "spin" || via == "io_uring" || via == "blocking"));
  const std::size_t size = std::strtoul(argv[3], nullptr, 10);
  const double seconds = std::strtod(argv[4], nullptr);
  if (!known || size < 8 || size > 65000 || seconds <= 0) uroce::bench::usage();
  return uroce::bench::run(mode, via, size, seconds);
}
