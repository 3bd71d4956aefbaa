// SPDX-License-Identifier: Apache-2.0
// Every packet that the kernel's rxe sent in the lab: parse, compare with what an independent decoder said, describe,
// build again byte for byte, reproduce and check the ICRC. Exact counts: nothing may be skipped silently.
#include "tests/unit/proto/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <map>

#include "proto/address.h"
#include "proto/describe/describe.h"
#include "proto/entropy.h"
#include "proto/frame.h"
#include "tests/unit/proto/hex.h"
#include "tests/unit/proto/reencode.h"

namespace uroce::proto::test {
namespace {

using nlohmann::json;

constexpr std::size_t kFrames = 2057;
constexpr std::size_t kProbeFrames = 326;

std::uint64_t number(const json& value) {
  if (value.is_number()) return value.get<std::uint64_t>();
  const std::string text = value.get<std::string>().substr(2);  // "0x..."
  std::uint64_t result = 0;
  std::from_chars(text.data(), text.data() + text.size(), result, 16);
  return result;
}

FrameView must_parse(const GoldenFrame& golden) {
  const auto frame = parse_frame(golden.bytes);
  if (!frame) throw std::runtime_error(golden.label() + ": " + std::string(to_string(frame.error())));
  return *frame;
}

TEST(Golden, AllFramesAreThere) {
  EXPECT_EQ(golden_frames().size(), kFrames);
  EXPECT_EQ(std::count_if(golden_frames().begin(), golden_frames().end(), [](auto& f) { return f.is_probe(); }),
            kProbeFrames);
}

TEST(Golden, FramesAreBuiltAgainByteForByte) {
  std::size_t checked = 0;
  for (const GoldenFrame& golden : golden_frames()) {
    const FrameView frame = must_parse(golden);
    EXPECT_FALSE(frame.fields.ip_checksum) << golden.label();
    std::vector<std::uint8_t> built(frame_size(frame.fields, frame.packet.size()), 0xEE);
    ASSERT_EQ(build_frame(frame.fields, frame.packet, built), built.size());
    ASSERT_EQ(built, golden.bytes) << golden.label();
    ++checked;
  }
  EXPECT_EQ(checked, kFrames);
}

// The hand-made packets of the probes (pcaps/rxe) that no receiver may take for RoCE packets.
TEST(Golden, OnlyTheProbesHoldMalformedPackets) {
  std::map<ParseError, int> errors;
  for (const GoldenFrame& golden : golden_frames()) {
    const FrameView frame = must_parse(golden);
    const auto packet = parse_packet(frame.packet);
    if (packet) continue;
    ++errors[packet.error()];
    EXPECT_TRUE(golden.is_probe() && to_string(frame.fields.path.source) == "10.77.0.1") << golden.label();
  }
  const std::map<ParseError, int> expected{
      {ParseError::kBadTransportVersion, 1},  // "TVer 1"
      {ParseError::kUnknownOpcode, 2},        // reserved 0x15 and 0x18
      {ParseError::kTooShort, 2},             // of 12 and of 8 bytes
      {ParseError::kHeaderTruncated, 1},      // WRITE ONLY cut inside the RETH
  };
  EXPECT_EQ(errors, expected);
}

TEST(Golden, PacketsAreBuiltAgainByteForByte) {
  std::size_t checked = 0;
  std::size_t wrong_icrc = 0;
  for (const GoldenFrame& golden : golden_frames()) {
    const FrameView frame = must_parse(golden);
    const auto packet = parse_packet(frame.packet);
    if (!packet) continue;
    std::vector<std::uint8_t> built = reencode(*packet, frame.fields.path, frame.fields.ip_id);
    if (!icrc_ok(frame)) {  // wrong on purpose: everything else must be equal
      ++wrong_icrc;
      store_icrc(MutBytes(built).last(kIcrcSize), packet->icrc());
    }
    ASSERT_EQ(to_hex(built), to_hex(frame.packet)) << golden.label();
    ++checked;
  }
  EXPECT_EQ(checked, kFrames - 6);
  EXPECT_EQ(wrong_icrc, 3u);
}

TEST(Golden, OnlyPacketsSpoiltOnPurposeHaveAWrongIcrc) {
  std::vector<std::string> wrong;
  for (const GoldenFrame& golden : golden_frames()) {
    const FrameView frame = must_parse(golden);
    if (icrc_ok(frame)) continue;
    wrong.push_back(golden.topic);
    if (golden.is_probe()) {
      EXPECT_EQ(to_string(frame.fields.path.source), "10.77.0.1");
    } else {
      EXPECT_EQ(expectation(golden).at("icrc_ok"), false);
      EXPECT_THAT(golden.capture, testing::EndsWith(".atB.pcap"));
    }
  }
  // The probes: "ICRC wrong", and two packets too short for one.
  EXPECT_THAT(wrong, testing::ElementsAre("corrupt_icrc_only", "corrupt_icrc_send", "probe_responder",
                                          "probe_responder", "probe_responder"));
}

// What a UDP socket shows is enough to verify the ICRC, and tells the IPv4 Identification.
TEST(Golden, CheckIcrcRecoversTheIpv4Id) {
  std::size_t ipv6 = 0, zero = 0, recovered = 0, refused = 0;
  for (const GoldenFrame& golden : golden_frames()) {
    const FrameView frame = must_parse(golden);
    const IcrcCheck check = check_icrc(frame.fields.path, frame.packet);
    if (!icrc_ok(frame)) {
      EXPECT_FALSE(check.ok) << golden.label();
      ++refused;
      continue;
    }
    ASSERT_TRUE(check.ok) << golden.label();
    ASSERT_EQ(check.ip_id, frame.fields.ip_id) << golden.label();
    ++(!frame.fields.path.destination.is_v4() ? ipv6 : check.ip_id == 0 ? zero : recovered);
  }
  EXPECT_EQ(refused, 5u);
  EXPECT_EQ(ipv6 + zero + recovered, kFrames - 5);
  EXPECT_GT(ipv6, 0u);
  EXPECT_GT(zero, 100u);        // the host's hand-made packets
  EXPECT_GT(recovered, 1500u);  // rxe's
}

void compare_network(const FrameFields& fields, std::size_t packet_size, const json& want) {
  const json& ip = want.at("ip");
  EXPECT_EQ(to_string(fields.path.source), ip.at("src").get<std::string>());
  EXPECT_EQ(to_string(fields.path.destination), ip.at("dst").get<std::string>());
  if (ip.at("v") == 4) {
    EXPECT_EQ(fields.path.tclass, ip.at("tos"));
    EXPECT_EQ(fields.ip_id, ip.at("id"));
    EXPECT_EQ(fields.ip_flags, ip.at("df") == 1 ? kDontFragment : 0);
    EXPECT_EQ(fields.path.hop_limit, ip.at("ttl"));
    EXPECT_EQ(packet_size + Udp::kSize + Ipv4::kSize, ip.at("len"));
    EXPECT_EQ(!fields.ip_checksum, ip.at("header_checksum_ok").get<bool>());
  } else {
    EXPECT_EQ(fields.path.tclass, ip.at("tclass"));
    EXPECT_EQ(fields.path.flow_label, ip.at("flow"));
    EXPECT_EQ(fields.path.hop_limit, ip.at("hop"));
    EXPECT_EQ(packet_size + Udp::kSize + Ipv6::kSize, ip.at("len"));
  }
  EXPECT_EQ(fields.path.source_port, want.at("udp").at("sport"));
  EXPECT_EQ(fields.udp_checksum, want.at("udp").at("csum"));
}

void compare_bth(ConstView<Bth> bth, const json& want) {
  EXPECT_EQ(bth.get<Bth::Opcode>(), want.at("opcode"));
  EXPECT_EQ(bth.get<Bth::SolicitedEvent>(), want.at("se"));
  EXPECT_EQ(bth.get<Bth::MigReq>(), want.at("m"));
  EXPECT_EQ(bth.get<Bth::PadCount>(), want.at("pad"));
  EXPECT_EQ(bth.get<Bth::TVer>(), want.at("tver"));
  EXPECT_EQ(bth.get<Bth::PKey>(), want.at("pkey"));
  EXPECT_EQ(bth.get<Bth::Fecn>() << 7 | bth.get<Bth::Becn>() << 6 | bth.get<Bth::Resv6>(), want.at("resv8a"));
  EXPECT_EQ(bth.get<Bth::DestQp>(), want.at("dqpn"));
  EXPECT_EQ(bth.get<Bth::AckReq>(), want.at("a"));
  EXPECT_EQ(bth.get<Bth::Resv7>(), want.at("resv7"));
  EXPECT_EQ(bth.get<Bth::PsnField>(), want.at("psn"));
}

void compare_extended(const PacketView& packet, const json& want) {
  EXPECT_EQ(packet.has<Deth>(), want.contains("deth"));
  EXPECT_EQ(packet.has<Reth>(), want.contains("reth"));
  EXPECT_EQ(packet.has<AtomicEth>(), want.contains("atomiceth"));
  EXPECT_EQ(packet.has<Aeth>(), want.contains("aeth"));
  EXPECT_EQ(packet.has<AtomicAckEth>(), want.contains("atomicacketh"));
  EXPECT_EQ(packet.has<ImmDt>(), want.contains("immdt"));
  EXPECT_EQ(packet.has<Ieth>(), want.contains("ieth"));
  if (packet.has<Deth>()) {
    EXPECT_EQ(packet.header<Deth>().get<Deth::QKey>(), number(want.at("deth").at("qkey")));
    EXPECT_EQ(packet.header<Deth>().get<Deth::SourceQp>(), number(want.at("deth").at("sqpn")));
  }
  if (packet.has<Reth>()) {
    EXPECT_EQ(packet.header<Reth>().get<Reth::Va>(), number(want.at("reth").at("va")));
    EXPECT_EQ(packet.header<Reth>().get<Reth::RKey>(), number(want.at("reth").at("rkey")));
    EXPECT_EQ(packet.header<Reth>().get<Reth::DmaLength>(), number(want.at("reth").at("len")));
  }
  if (packet.has<AtomicEth>()) {
    const auto atomic = packet.header<AtomicEth>();
    EXPECT_EQ(atomic.get<AtomicEth::Va>(), number(want.at("atomiceth").at("va")));
    EXPECT_EQ(atomic.get<AtomicEth::RKey>(), number(want.at("atomiceth").at("rkey")));
    EXPECT_EQ(atomic.get<AtomicEth::SwapAdd>(), number(want.at("atomiceth").at("swap_or_add")));
    EXPECT_EQ(atomic.get<AtomicEth::Compare>(), number(want.at("atomiceth").at("compare")));
  }
  if (packet.has<Aeth>()) {
    const auto aeth = packet.header<Aeth>();
    const Syndrome syndrome = decode_syndrome(aeth.get<Aeth::SyndromeField>());
    const std::array<std::string, 4> kinds{"ACK", "RNR_NAK", "NAK", "RESERVED"};
    EXPECT_EQ(aeth.get<Aeth::SyndromeField>(), want.at("aeth").at("syndrome"));
    EXPECT_EQ(aeth.get<Aeth::Msn>(), want.at("aeth").at("msn"));
    EXPECT_EQ(kinds.at(syndrome.index()), want.at("aeth").at("kind").get<std::string>());
  }
  if (packet.has<AtomicAckEth>()) {
    EXPECT_EQ(packet.header<AtomicAckEth>().get<AtomicAckEth::Original>(), number(want.at("atomicacketh")));
  }
  if (packet.has<ImmDt>()) {
    EXPECT_EQ(packet.header<ImmDt>().get<ImmDt::Data>(), number(want.at("immdt")));
  }
  if (packet.has<Ieth>()) {
    EXPECT_EQ(packet.header<Ieth>().get<Ieth::RKey>(), number(want.at("ieth")));
  }
}

TEST(Golden, EveryFieldIsWhatTheSidecarSays) {
  std::size_t checked = 0;
  for (const GoldenFrame& golden : golden_frames()) {
    if (golden.is_probe()) continue;  // their sidecars have no packet lists, see below
    SCOPED_TRACE(golden.label());
    const json& want = expectation(golden);
    ASSERT_EQ(want.at("n"), golden.number);
    const FrameView frame = must_parse(golden);
    const auto packet = parse_packet(frame.packet);
    ASSERT_TRUE(packet.ok());
    compare_network(frame.fields, frame.packet.size(), want);
    compare_bth(packet->bth(), want.at("bth"));
    compare_extended(*packet, want);
    EXPECT_EQ(packet->payload().size(), want.at("payload_len"));
    EXPECT_EQ(to_hex(packet->pad()), want.at("pad_bytes").get<std::string>());
    EXPECT_EQ(to_hex(frame.packet.last(kIcrcSize)), want.at("icrc").get<std::string>());
    EXPECT_EQ(icrc_ok(frame), want.at("icrc_ok"));
    ++checked;
    if (testing::Test::HasFailure()) return;  // one packet's worth of messages is enough
  }
  EXPECT_EQ(checked, kFrames - kProbeFrames);
}

/// A packet as the "expected" lists of the sidecars have it, without the name: "12->.1 psn=256 A synd=0x1f msn=1".
std::string short_form(const FrameView& frame) {
  const auto tail = [](const Gid& gid) { return to_string(gid).substr(to_string(gid).size() - 2); };
  const ConstView<Bth> bth{frame.packet.data()};
  std::string text = tail(frame.fields.path.source) + "->" + tail(frame.fields.path.destination) +
                     " psn=" + std::to_string(bth.get<Bth::PsnField>());
  if (bth.get<Bth::AckReq>() != 0) text += " A";
  if (bth.get<Bth::SolicitedEvent>() != 0) text += " SE";
  const auto packet = parse_packet(frame.packet);
  if (packet && packet->has<Aeth>()) {
    char aeth[40];
    std::snprintf(aeth, sizeof aeth, " synd=0x%02x msn=%u", packet->header<Aeth>().get<Aeth::SyndromeField>(),
                  packet->header<Aeth>().get<Aeth::Msn>());
    text += aeth;
  }
  return text;
}

TEST(Golden, ProbesAreWhatTheSidecarLists) {
  std::map<std::string, std::vector<std::string>> seen;
  for (const GoldenFrame& golden : golden_frames()) {
    if (!golden.is_probe()) continue;
    const FrameView frame = must_parse(golden);
    const auto packet = parse_packet(frame.packet);
    // The sidecar leaves out what has a wrong ICRC and what its decoder could not read to the end.
    if (!icrc_ok(frame) || (!packet && packet.error() == ParseError::kHeaderTruncated)) continue;
    seen[golden.capture].push_back(short_form(frame));
  }
  std::size_t listed = 0;
  for (const auto& [capture, lines] : seen) {
    std::vector<std::string> expected;
    const std::string topic = capture.substr(0, capture.find('.'));
    for (std::string line : sidecar(topic).at("expected").at(capture)) {
      const std::size_t name = line.find(' ');
      expected.push_back(line.erase(name, line.find(' ', name + 1) - name));
    }
    EXPECT_EQ(lines, expected) << capture;
    listed += expected.size();
  }
  EXPECT_EQ(listed, kProbeFrames - 4);
}

TEST(Golden, EveryFrameIsDescribed) {
  for (const GoldenFrame& golden : golden_frames()) {
    const FrameView frame = must_parse(golden);
    const auto packet = parse_packet(frame.packet);
    const std::string line = one_line(frame);
    const std::string name(packet ? packet->op().name : std::string_view("malformed packet: "));
    ASSERT_THAT(line, testing::HasSubstr(" > " + to_string(frame.fields.path.destination) + " ")) << golden.label();
    ASSERT_THAT(line, testing::HasSubstr(name)) << golden.label();
    ASSERT_EQ(line.ends_with("ICRC wrong"), !icrc_ok(frame)) << line;
    ASSERT_EQ(line.find('\n'), std::string::npos);
    ASSERT_THAT(frame_tree(golden.bytes), testing::HasSubstr(icrc_ok(frame) ? "ICRC right\n" : "ICRC wrong\n"));
  }
}

// RC and UC flows use one source port in both directions, whose value follows from the QP numbers or the flow label.
TEST(Golden, SourcePortsFollowTheFlow) {
  std::size_t checked = 0, labelled = 0;
  for (const GoldenFrame& golden : golden_frames()) {
    const json& topic = sidecar(golden.topic);
    if (golden.is_probe() || !topic.contains("endpoints")) continue;
    const FrameView frame = must_parse(golden);
    const auto packet = parse_packet(frame.packet);
    ASSERT_TRUE(packet.ok());
    if (packet->op().service != Service::kRc && packet->op().service != Service::kUc) continue;
    const json& a = topic.at("endpoints").at("A");
    const json& b = topic.at("endpoints").at("B");
    const bool from_a = to_string(frame.fields.path.source) == a.at("ip").get<std::string>();
    std::uint32_t label = 0;
    if (from_a && topic.at("options").contains("a_kw")) label = topic.at("options").at("a_kw").value("fl", 0u);
    labelled += label != 0 ? 1 : 0;
    const std::uint32_t local = from_a ? a.at("qpn") : b.at("qpn");
    ASSERT_EQ(frame.fields.path.source_port, flow_source_port(label, local, packet->dest_qp())) << golden.label();
    ++checked;
  }
  EXPECT_EQ(checked, 1515u);
  EXPECT_GT(labelled, 0u);
}

}  // namespace
}  // namespace uroce::proto::test
