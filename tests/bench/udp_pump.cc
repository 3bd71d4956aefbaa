// The ceiling for a NIC over UDP sockets: two processes on loopback, one sends datagrams as fast as sendmmsg goes, the
// other receives them with recvmmsg, and nobody looks at the bytes. A window of acknowledgements keeps the receiver's
// buffer from overflowing, so that what is sent is what arrives.
//
//     uroce_bench_udp [PAYLOAD_BYTES [SECONDS]]     prints one line of JSON
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kBatch = 16;
constexpr std::uint64_t kWindow = 32;  ///< Datagrams in flight: fits the socket buffer of an unprivileged user.

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

int bound_socket(sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  const int no_checksum = 1;
  if (fd < 0 || bind(fd, raw, size) != 0 || getsockname(fd, raw, &size) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &no_checksum, sizeof no_checksum) != 0) {
    die("socket");
  }
  return fd;
}

/// kBatch datagrams of `size` bytes, to or from anywhere.
struct Batch {
  Batch(std::size_t size, sockaddr_in* to) : buffers(kBatch, std::vector<char>(size)) {
    for (unsigned i = 0; i < kBatch; ++i) {
      vectors[i] = {buffers[i].data(), size};
      messages[i].msg_hdr.msg_iov = &vectors[i];
      messages[i].msg_hdr.msg_iovlen = 1;
      messages[i].msg_hdr.msg_name = to;
      messages[i].msg_hdr.msg_namelen = to != nullptr ? sizeof *to : 0;
    }
  }
  std::vector<std::vector<char>> buffers;
  std::array<iovec, kBatch> vectors{};
  std::array<mmsghdr, kBatch> messages{};
};

void receive_for_ever(int fd, sockaddr_in sender, std::size_t size) {
  Batch batch(size, nullptr);
  std::uint64_t received = 0;
  for (;;) {
    const int n = recvmmsg(fd, batch.messages.data(), kBatch, MSG_WAITFORONE, nullptr);
    if (n < 0) die("recvmmsg");
    received += static_cast<std::uint64_t>(n);
    sendto(fd, &received, sizeof received, 0, reinterpret_cast<const sockaddr*>(&sender), sizeof sender);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t size = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 4128;  // 4 KiB of payload with BTH, RETH, ICRC
  const double seconds = argc > 2 ? std::strtod(argv[2], nullptr) : 2.0;
  sockaddr_in to{}, from{};
  const int receiver = bound_socket(to), sender = bound_socket(from);
  const pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) receive_for_ever(receiver, from, size);

  Batch batch(size, &to);
  std::uint64_t sent = 0, acknowledged = 0;
  const auto start = Clock::now();
  auto now = start;
  while (std::chrono::duration<double>(now - start).count() < seconds) {
    while (sent - acknowledged + kBatch > kWindow) {
      if (recv(sender, &acknowledged, sizeof acknowledged, 0) < 0) die("recv");
    }
    const int n = sendmmsg(sender, batch.messages.data(), kBatch, 0);
    if (n < 0) die("sendmmsg");
    sent += static_cast<std::uint64_t>(n);
    now = Clock::now();
  }
  kill(child, SIGTERM);
  waitpid(child, nullptr, 0);
  const double elapsed = std::chrono::duration<double>(now - start).count();
  const double rate = static_cast<double>(acknowledged) / elapsed;
  std::printf("{\"datagram_bytes\": %zu, \"packets_per_second\": %.0f, \"gigabits_per_second\": %.3f}\n", size, rate,
              rate * static_cast<double>(size) * 8e-9);
}
