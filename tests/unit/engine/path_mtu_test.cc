// SPDX-License-Identifier: Apache-2.0
// "Fragmentation needed" and "packet too big" that no router ever sent. Anyone who can send an ICMP message to the host
// and knows a source port can have its kernel believe in a small path MTU for minutes.
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>

#include <thread>

#include "proto/packet.h"
#include "tests/support/port_fixture.h"

namespace uroce::test {
namespace {

using engine::SocketAddress;

template <class T>
void append(std::vector<std::uint8_t>& bytes, const T& value) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

std::uint16_t internet_checksum(const std::vector<std::uint8_t>& bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) sum += static_cast<std::uint32_t>(bytes[i] << 8 | bytes[i + 1]);
  while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
  return htons(static_cast<std::uint16_t>(~sum));
}

/// The ICMP message by which a router would say that packets on `path` may have no more than `mtu` bytes.
std::vector<std::uint8_t> too_big(const proto::Path& path, std::uint16_t mtu) {
  constexpr std::uint16_t kUdpLength = 4000;
  std::vector<std::uint8_t> message;
  if (path.source.is_v4()) {
    icmphdr icmp{};
    icmp.type = ICMP_DEST_UNREACH;
    icmp.code = ICMP_FRAG_NEEDED;
    icmp.un.frag.mtu = htons(mtu);
    append(message, icmp);
    iphdr ip{};
    ip.version = 4;
    ip.ihl = 5;
    ip.tot_len = htons(sizeof ip + kUdpLength);
    ip.frag_off = htons(IP_DF);
    ip.ttl = 64;
    ip.protocol = IPPROTO_UDP;
    std::memcpy(&ip.saddr, path.source.v4(), 4);
    std::memcpy(&ip.daddr, path.destination.v4(), 4);
    append(message, ip);
  } else {
    icmp6_hdr icmp{};
    icmp.icmp6_type = ICMP6_PACKET_TOO_BIG;
    icmp.icmp6_mtu = htonl(mtu);
    append(message, icmp);
    ip6_hdr ip{};
    ip.ip6_flow = htonl(6u << 28);
    ip.ip6_plen = htons(kUdpLength);
    ip.ip6_nxt = IPPROTO_UDP;
    ip.ip6_hlim = 64;
    std::memcpy(&ip.ip6_src, path.source.raw.data(), 16);
    std::memcpy(&ip.ip6_dst, path.destination.raw.data(), 16);
    append(message, ip);
  }
  udphdr udp{};
  udp.source = htons(path.source_port);
  udp.dest = htons(proto::kRocePort);
  udp.len = htons(kUdpLength);
  append(message, udp);
  if (path.source.is_v4()) {
    const std::uint16_t checksum = internet_checksum(message);  // For ICMPv6 the kernel does it.
    std::memcpy(message.data() + offsetof(icmphdr, checksum), &checksum, sizeof checksum);
  }
  return message;
}

void forge(const proto::Path& path, std::uint16_t mtu) {
  const bool v4 = path.source.is_v4();
  const int protocol = v4 ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6};
  const engine::Fd raw(::socket(v4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC, protocol));
  ASSERT_TRUE(raw) << std::strerror(errno);
  const std::vector<std::uint8_t> message = too_big(path, mtu);
  const SocketAddress to(path.source, 0);
  ASSERT_EQ(::sendto(raw.get(), message.data(), message.size(), 0, to.get(), to.size),
            static_cast<ssize_t>(message.size()))
      << std::strerror(errno);
}

/// Whether an ordinary socket, which believes in path MTUs, can still send a packet on `path`.
bool can_send_ordinarily(const proto::Path& path, std::size_t size) {
  const bool v4 = path.source.is_v4();
  const engine::Fd fd(::socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  static_assert(IP_PMTUDISC_DO == IPV6_PMTUDISC_DO);
  const int always = IP_PMTUDISC_DO;
  ::setsockopt(fd.get(), v4 ? int{IPPROTO_IP} : int{IPPROTO_IPV6}, v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &always,
               sizeof always);
  const SocketAddress from(path.source, 0), to(path.destination, 9);
  EXPECT_EQ(::bind(fd.get(), from.get(), from.size), 0);
  const std::vector<std::uint8_t> bytes(size);
  return ::sendto(fd.get(), bytes.data(), bytes.size(), 0, to.get(), to.size) >= 0;
}

class PathMtuTest : public PortTest {};
INSTANTIATE_TEST_SUITE_P(Engines, PathMtuTest, testing::ValuesIn(kPortCases), case_name);

TEST_P(PathMtuTest, AForgedPathMtuStopsNoPacket) {
  const proto::Path sent = path(1, 2);
  Inbox inbox;
  ASSERT_TRUE(queue(*a_, sent, 1, proto::kMaxPacketSize));
  a_->flush();
  receive(*b_, inbox, 1);
  forge(sent, 1280);
  const Instant limit = engine::os_now() + 5s;  // The kernel's half of lo may be late.
  while (can_send_ordinarily(sent, proto::kMaxPacketSize) && engine::os_now() < limit) std::this_thread::yield();
  ASSERT_FALSE(can_send_ordinarily(sent, proto::kMaxPacketSize)) << "the kernel did not believe the message";
  for (std::uint32_t i = 2; i <= 20; ++i) ASSERT_TRUE(queue(*a_, sent, i, proto::kMaxPacketSize));
  a_->flush();
  receive(*b_, inbox, 20);
  EXPECT_EQ(a_->counters().send_errors, 0u);
  for (const Inbox::Packet& packet : inbox.packets) EXPECT_THAT(packet.bytes, testing::SizeIs(proto::kMaxPacketSize));
}

}  // namespace
}  // namespace uroce::test
