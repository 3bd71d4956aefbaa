// SPDX-License-Identifier: Apache-2.0
// Captures as others make them: tags and tunnels around the frames, frames cut off, RoCEv1; and packets that hardware
// has sent. All are told like the plain capture of the same packets.
#include "tools/explain/packets/wrapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/frame.h"
#include "tests/unit/explain/retold.h"
#include "tests/unit/explain/rewritten.h"

namespace uroce::explain::test {
namespace {

using namespace proto;

const std::string kCapture = "rxe/loss_send_middle.atA";
const std::string kSameCounts = "nak:5 nak_sequence:1";

Octets joined(const Octets& front, const Octets& rest) {
  Octets out = front;
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

/// Tags behind the MAC addresses: their EtherTypes.
Octets tagged(const Octets& frame, const std::vector<std::uint16_t>& types) {
  Writer writer;
  writer.swapped = true;
  writer.bytes(Bytes(frame).first(12));
  for (const std::uint16_t type : types) writer.half(type).half(7);
  writer.bytes(Bytes(frame).subspan(12));
  return writer.out;
}

/// An IPv4 packet of a tunnel in Ethernet. Its checksum is not checked by anybody.
Octets outer_ipv4(std::uint8_t protocol, const Octets& payload) {
  Octets header{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 6, 8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol};
  header.resize(34);
  const std::size_t size = 20 + payload.size();
  header[16] = static_cast<std::uint8_t>(size >> 8);
  header[17] = static_cast<std::uint8_t>(size);
  return joined(header, payload);
}
Octets gre(const Octets& header, const Octets& frame) { return outer_ipv4(47, joined(header, frame)); }
Octets erspan1(const Octets& frame) { return gre({0, 0, 0x88, 0xBE}, frame); }
Octets erspan2(const Octets& frame) { return gre({0x10, 0, 0x88, 0xBE, 0, 0, 0, 1, 0x10, 7, 0, 1, 0, 0, 0, 0}, frame); }
Octets erspan3(const Octets& frame) {
  return gre({0x10, 0, 0x22, 0xEB, 0, 0, 0, 1, 0x20, 7, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8}, frame);
}
Octets vxlan(const Octets& frame) {
  return outer_ipv4(17, joined({0xC0, 0, 0x12, 0xB5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 7, 0}, frame));
}
Octets gre_ip(const Octets& frame) { return gre({0x20, 0, 8, 0, 0, 0, 0, 9}, Octets(frame.begin() + 14, frame.end())); }

TEST(Wrapping, TagsAndTunnelsAreTakenOff) {
  const std::vector<std::pair<std::string, std::function<Octets(const Octets&)>>> kWrappings{
      {"", [](const Octets& f) { return tagged(f, {0x8100}); }},
      {"",
       [](const Octets& f) {
         return tagged(f, {0x88A8, 0x8100});
       }},
      {"",
       [](const Octets& f) {
         return tagged(f, {0x9100, 0x8100, 0x8100});
       }},
      {"ERSPAN", erspan1},
      {"ERSPAN", erspan2},
      {"ERSPAN", erspan3},
      {"ERSPAN", [](const Octets& f) { return erspan2(tagged(f, {0x8100})); }},
      {"VXLAN", vxlan},
      {"VXLAN", [](const Octets& f) { return erspan3(vxlan(f)); }},
      {"GRE", gre_ip},
  };
  for (const auto& [tunnel, convert] : kWrappings) {
    for (const std::string name : {"rxe/loss_send_middle.atA", "rxe/ud_send_imm_v6"}) {
      if (name.ends_with("v6") && tunnel == "GRE") continue;  // Its type would be another one.
      const Retold retold = retell_bytes(pcap(name, {.convert = convert}));
      const Retold plain = retell({name});
      EXPECT_EQ(retold.counts(), plain.counts()) << tunnel << ' ' << name;
      EXPECT_EQ(retold.story->totals().icrc_right, plain.story->totals().packets) << tunnel << ' ' << name;
      ASSERT_FALSE(retold.lines.empty()) << tunnel << ' ' << name;
      EXPECT_EQ(retold.lines[0].packet.tunnel, tunnel);
      EXPECT_EQ(retold.files[0].tunneled, tunnel.empty() ? 0 : retold.files[0].frames);
    }
  }
}

/// An IPv6 frame with `chain` of the given first header between IPv6 and what it carries.
Octets extended(const Octets& frame, std::uint8_t first, const Octets& chain) {
  Octets out(frame.begin(), frame.begin() + 54);
  const std::size_t size = static_cast<std::size_t>(out[18] << 8 | out[19]) + chain.size();
  out[18] = static_cast<std::uint8_t>(size >> 8);
  out[19] = static_cast<std::uint8_t>(size);
  out[20] = first;
  return joined(joined(out, chain), Octets(frame.begin() + 54, frame.end()));
}
/// Hop-by-hop options, a routing header of two units, destination options, a fragment header: to UDP.
const Octets kChain{43, 0, 1, 4, 0,  0, 0, 0, 60, 1, 4, 0, 0,  0, 0, 0, 1, 2, 3, 4,
                    5,  6, 7, 8, 44, 0, 1, 4, 0,  0, 0, 0, 17, 0, 0, 6, 1, 2, 3, 4};

TEST(Wrapping, Ipv6ExtensionHeadersAreTakenOff) {
  const std::string name = "rxe/ud_send_imm_v6";
  const Retold plain = retell({name});
  const auto extend = [](const Octets& frame) { return extended(frame, 0, kChain); };
  const auto in_tunnel = [&](const Octets& frame) { return vxlan(extend(frame)); };
  // As Linux sends GRE over IPv6: with a limit of encapsulation.
  const auto gre_over_ipv6 = [&](const Octets& frame) {
    Octets outer(frame.begin(), frame.begin() + 54);
    const Octets payload = joined({0, 0, 0x65, 0x58}, frame);
    outer[18] = static_cast<std::uint8_t>(payload.size() >> 8);
    outer[19] = static_cast<std::uint8_t>(payload.size());
    return extended(joined(outer, payload), 60, {47, 0, 4, 1, 4, 1, 1, 0});
  };
  for (const auto& convert : std::vector<std::function<Octets(const Octets&)>>{extend, in_tunnel, gre_over_ipv6}) {
    const Retold retold = retell_bytes(pcap(name, {.convert = convert}));
    EXPECT_EQ(retold.counts(), plain.counts());
    EXPECT_EQ(retold.files[0].not_roce, 0u);
    EXPECT_EQ(retold.story->totals().icrc_right, plain.story->totals().packets);
  }
  const Retold cut = retell_bytes(pcap(name, {.convert = extend, .snap = 54 + kChain.size() + 8 + 24}));
  EXPECT_EQ(cut.lines.size(), plain.lines.size());
  EXPECT_EQ(cut.story->totals().icrc_wrong, 0u);
}

TEST(Wrapping, PacketsOnTheirWayAndFragmentsOfIpv6AreNotRoce) {
  for (const auto& [first, chain] : std::vector<std::pair<std::uint8_t, Octets>>{{43, {17, 0, 4, 1, 0, 0, 0, 0}},
                                                                                 {44, {17, 0, 0, 1, 1, 2, 3, 4}},
                                                                                 {44, {17, 0, 0, 8, 1, 2, 3, 4}},
                                                                                 {60, {17, 255, 1, 4, 0, 0, 0, 0}},
                                                                                 {50, {17, 0, 1, 4, 0, 0, 0, 0}}}) {
    const auto convert = [&value = first, &rest = chain](const Octets& frame) { return extended(frame, value, rest); };
    const Retold retold = retell_bytes(pcap("rxe/ud_send_imm_v6", {.convert = convert}));
    EXPECT_TRUE(retold.lines.empty()) << int{first};
    EXPECT_EQ(retold.files[0].not_roce, retold.files[0].frames) << int{first};
  }
}

TEST(Wrapping, WhatIsNotRoceInATunnelIsNotRoce) {
  const Octets other = outer_ipv4(6, Octets(40));
  const Retold retold = retell_bytes(pcap(kCapture, {.convert = [&](const Octets&) { return erspan2(other); }}));
  EXPECT_TRUE(retold.lines.empty());
  EXPECT_EQ(retold.files[0].not_roce, 15u);
}

/// Switches mirror the first bytes of a packet only. The mirrored packet itself is captured whole.
TEST(Wrapping, MirrorsThatCutPacketsAreToldWithoutIcrc) {
  for (const std::size_t size : {60u, 80u, 128u}) {
    const auto convert = [size](const Octets& frame) {
      return erspan2(Octets(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(std::min(frame.size(), size))));
    };
    const Retold retold = retell_bytes(pcap(kCapture, {.convert = convert}));
    EXPECT_EQ(retold.counts(), kSameCounts) << size;
    EXPECT_EQ(retold.story->totals().icrc_wrong, 0u) << size;
    EXPECT_GE(retold.story->totals().icrc_unknown, 13u) << size;
  }
}

/// A frame check sequence that was captured, or not, is not part of the packet.
TEST(Wrapping, TheFrameCheckSequenceDoesNotMatter) {
  const auto convert = [](const Octets& frame) { return joined(frame, {1, 2, 3, 4}); };
  EXPECT_EQ(retell_bytes(pcap(kCapture, {.convert = convert})).story->totals().icrc_right, 15u);
  const std::size_t longest = 14 + 20 + 8 + 12 + 1024 + 4;
  const Retold without = retell_bytes(pcap(kCapture, {.convert = convert, .snap = longest}));
  EXPECT_EQ(without.story->totals().icrc_right, 15u);
}

/// Whatever the number of bytes that are kept: nothing is told that was not captured.
TEST(Wrapping, CutHeadersAreNotReadAsZeros) {
  for (const std::string name : {"rxe/loss_write_middle.atA", "rxe/rc_read_two", "rxe/loss_nak.atA", "rxe/rc_faa",
                                 "rxe/uc_loss_write.atB", "rxe/rc_write_157pkt_mtu256"}) {
    const Retold whole = retell({name});
    for (std::size_t snap = 14; snap < 120; ++snap) {
      const Retold retold = retell_bytes(pcap(name, {.snap = snap}));
      EXPECT_EQ(retold.story->totals().icrc_wrong, 0u) << name << ' ' << snap;
      for (const Line& line : retold.lines) {
        const auto same = [&](const Line& other) {
          const Packet &a = line.packet, &b = other.packet;
          return a.place == b.place && a.op == b.op && a.psn == b.psn && a.syndrome == b.syndrome &&
                 (a.length == b.length || a.length_cut) && a.payload == b.payload && a.original == b.original;
        };
        EXPECT_TRUE(std::any_of(whole.lines.begin(), whole.lines.end(), same)) << name << ' ' << snap;
        for (const Note& note : line.told.notes)
          EXPECT_NE(note.severity, Severity::kBreach) << name << ' ' << note.text;
      }
      if (snap >= 14 + 20 + 8 + 12 + 28) {
        EXPECT_EQ(retold.counts(), whole.counts()) << name << ' ' << snap;
      }
    }
  }
}

/// The same packets in RoCEv1: a GRH in place of IP and UDP.
TEST(Wrapping, RoceV1IsToldTheSame) {
  const auto convert = [](const Octets& frame) {
    const auto parsed = parse_frame(frame);
    FrameFields fields = parsed->fields;
    fields.version = RoceVersion::kV1;
    fields.path.source_port = 0;
    fields.trailer = {};
    Octets packet(parsed->packet.begin(), parsed->packet.end());
    const Bytes covered = Bytes(packet).first(packet.size() - kIcrcSize);
    store_icrc(MutBytes(packet).last(kIcrcSize), icrc_v1(fields.path, covered));
    Octets out(frame_size(fields, packet.size()));
    build_frame(fields, packet, out);
    return out;
  };
  const Retold retold = retell_bytes(pcap(kCapture, {.convert = convert}));
  EXPECT_EQ(retold.counts(), kSameCounts);
  EXPECT_EQ(retold.story->totals().icrc_right, 15u);
  EXPECT_TRUE(retold.lines.at(0).packet.roce_v1);
}

TEST(Wrapping, BytesAtRandomAreSurvived) {
  std::uint32_t state = 1;
  const auto random = [&state] { return state = state * 1664525 + 1013904223, static_cast<std::uint8_t>(state >> 24); };
  const Octets frame = frames_of(kCapture).at(0).second;
  for (const Octets& whole : {erspan3(vxlan(tagged(frame, {0x88A8, 0x8100}))), erspan1(frame), gre_ip(frame)}) {
    for (std::size_t size = 0; size < 140; ++size) {
      Octets damaged(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      static_cast<void>(unwrap(damaged));
      for (int i = 0; i < 200; ++i) {
        if (size != 0) damaged[random() % size] ^= random();
        const Unwrapped inner = unwrap(damaged);
        static_cast<void>(missing_bytes(inner.type, inner.network));
        EXPECT_LE(inner.network.size(), size);
      }
    }
  }
}

Retold retell_frame(const Octets& frame) {
  Writer writer;
  const auto size = static_cast<std::uint32_t>(frame.size());
  writer.word(0xA1B2C3D4).half(2).half(4).word(0).word(0).word(65535).word(1).word(1).word(2).word(size).word(size);
  return retell_bytes(writer.bytes(frame).out);
}

Octets from_hex(std::string_view text) {
  Octets out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    if (text[i] == ' ')
      --i;
    else
      out.push_back(static_cast<std::uint8_t>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

/// A CNP that a ConnectX-4 Lx has sent, as scapy's tests quote it (github.com/secdev/scapy, test/contrib/roce.uts).
TEST(Foreign, ACnpOfHardware) {
  const Octets frame = from_hex(
      "e41d2dab2bc2 7cfe90643b32 0800 45c2003c718c400040119161 0a001101 0a001201 000012b700280000 "
      "8100ffff400001180000000000000000000000000000000000000000 82fd002a");
  const Retold retold = retell_frame(frame);
  ASSERT_EQ(retold.lines.size(), 1u);
  EXPECT_EQ(retold.lines[0].packet.icrc, Icrc::kRight);
  EXPECT_EQ(retold.lines[0].packet.dest_qp, 0x118u);
  EXPECT_EQ(retold.noted("cnp"), 1u);
}

/// The ICRC that scapy's tests expect for a SEND over UC whose fields they name (the same file).
TEST(Foreign, AnIcrcThatScapyComputes) {
  FrameFields fields =
      frame_fields_for({Gid::from_v4(192, 168, 0, 7), Gid::from_v4(192, 168, 0, 7), 49152, 1, 64, 0}, 1144);
  const Octets packet = from_hex("2460ffff 000000d3 00cf1710 4630818be28935d90e9a95505401be885e500000 78f353f3");
  Octets frame(frame_size(fields, packet.size()));
  build_frame(fields, packet, frame);
  const Retold retold = retell_frame(frame);
  ASSERT_EQ(retold.lines.size(), 1u);
  EXPECT_EQ(retold.lines[0].packet.icrc, Icrc::kRight);
  EXPECT_EQ(retold.lines[0].packet.payload, 18u);
}

}  // namespace
}  // namespace uroce::explain::test
