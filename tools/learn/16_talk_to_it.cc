// Lesson 16: talk to a NIC with packets made by hand. A queue pair of an emulated NIC is told that its peer is QP
// 0x1234 at 127.0.0.2; behind that address there is only this program with a UDP socket.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "proto/describe/describe.h"
#include "proto/packet.h"
#include "tools/learn/verbs.h"

namespace {

using namespace uroce::proto;

constexpr std::uint32_t kOurQp = 0x1234, kFirstPsn = 0x100;
constexpr Gid kWe = Gid::from_v4(127, 0, 0, 2);

/// A UDP socket at 127.0.0.2:4791. IP_PMTUDISC_DO makes the kernel send the IPv4 identification 0, which is in the
/// ICRC.
int open_socket() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const int on = 1, dont_fragment = IP_PMTUDISC_DO;
  setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof on);  // UDP checksum 0
  setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &dont_fragment, sizeof dont_fragment);
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(kRocePort), .sin_addr = {htonl(0x7F000002)}, .sin_zero = {}};
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    std::perror("127.0.0.2:4791 (does another program have a NIC there? end it)");
    std::exit(1);
  }
  return fd;
}

/// Builds a SEND ONLY for the queue pair, sends it, prints what comes back.
void talk(int fd, const Gid& nic, std::uint32_t qpn, std::uint32_t psn, std::string_view text) {
  // A NIC accepts any source port; our socket has 4791. The ICRC covers it.
  const Path path{.source = kWe, .destination = nic, .source_port = kRocePort};
  std::array<std::uint8_t, 256> packet{};
  PacketBuilder builder(packet, Opcode::kRcSendOnly);
  builder.bth().set<Bth::DestQp>(qpn).set<Bth::PsnField>(psn).set<Bth::AckReq>(1);
  uroce::MutBytes payload = builder.payload(text.size());
  std::memcpy(payload.data(), text.data(), text.size());
  const std::uint32_t size = builder.finish(path);
  std::printf("we send:     %s\n", one_line(uroce::Bytes{packet.data(), size}).c_str());

  sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(kRocePort), .sin_addr = {}, .sin_zero = {}};
  std::memcpy(&to.sin_addr, nic.v4(), 4);
  sendto(fd, packet.data(), size, 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
  const ssize_t answered = recv(fd, packet.data(), packet.size(), 0);
  if (answered < 0) {
    std::printf("no answer\n");
    std::exit(1);
  }
  std::printf("it answers:  %s\n", one_line(uroce::Bytes{packet.data(), static_cast<std::size_t>(answered)}).c_str());
}

}  // namespace

int main() {
  learn::Nic nic;
  learn::Endpoint endpoint(nic);
  Gid nic_gid;
  std::memcpy(nic_gid.raw.data(), nic.gid.raw, 16);
  ibv_gid our_gid{};
  std::memcpy(our_gid.raw, kWe.raw.data(), 16);
  learn::connect(nic, endpoint.qp, kOurQp, our_gid, 0x200, kFirstPsn);
  endpoint.post_recv(1, 64);
  endpoint.post_recv(2, 64);
  const int fd = open_socket();

  std::printf("1. the PSN that it expects\n");
  talk(fd, nic_gid, endpoint.qp->qp_num, kFirstPsn, "hello NIC");
  learn::print("completion", learn::wait(endpoint.cq));
  std::printf("its buffer:  %s\n\n", endpoint.buffer.data());

  std::printf("2. the same packet again, as if its ACK had been lost\n");
  talk(fd, nic_gid, endpoint.qp->qp_num, kFirstPsn, "hello NIC");
  ibv_wc wc{};
  std::printf("new completions: %d\n\n", ibv_poll_cq(endpoint.cq, 1, &wc));

  std::printf("3. a PSN that leaves two out\n");
  talk(fd, nic_gid, endpoint.qp->qp_num, kFirstPsn + 3, "hello?");
  close(fd);
}
