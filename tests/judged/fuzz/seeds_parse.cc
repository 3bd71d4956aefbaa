// SPDX-License-Identifier: Apache-2.0
// Seeds of fuzz_parse: a frame for each opcode from the captures, frames that the captures don't have, capture files,
// and the bytes that have crashed other parsers.
#include <cstdio>
#include <map>

#include "proto/frame.h"
#include "proto/packet.h"
#include "tests/judged/fuzz/seeds.h"
#include "tests/unit/proto/golden.h"

namespace uroce::fuzz {
namespace {

using Frame = std::vector<std::uint8_t>;
using proto::test::golden_frames;

const Frame& first_send() {
  static const Frame kFrame = [] {
    for (const auto& golden : golden_frames()) {
      const auto frame = proto::parse_frame(golden.bytes);
      const auto packet = frame ? proto::parse_packet(frame->packet) : Err{proto::ParseError::kTooShort};
      if (packet && packet->op().code == proto::Opcode::kRcSendOnly && frame->fields.path.source.is_v4())
        return golden.bytes;
    }
    return Frame{};
  }();
  return kFrame;
}

/// The shortest frame of each opcode and IP version, and all that have no valid packet in them.
void add_golden(std::vector<Seed>& seeds) {
  std::map<std::string, const Frame*> shortest;
  int malformed = 0;
  for (const auto& golden : golden_frames()) {
    const auto frame = proto::parse_frame(golden.bytes);
    if (!frame) continue;
    std::string name = "malformed_";
    if (const auto packet = proto::parse_packet(frame->packet)) {
      char text[8];
      std::snprintf(text, sizeof text, "%02x", static_cast<unsigned>(packet->op().code));
      name = (frame->fields.path.source.is_v4() ? "v4_op" : "v6_op") + std::string(text);
    } else {
      name += std::to_string(malformed++);
    }
    const Frame*& best = shortest.try_emplace(name, &golden.bytes).first->second;
    if (golden.bytes.size() < best->size()) best = &golden.bytes;
  }
  for (const auto& [name, frame] : shortest) seeds.push_back({"parse", name, *frame});
}

Frame build(proto::FrameFields fields, Bytes packet) {
  Frame out(proto::frame_size(fields, packet.size()));
  proto::build_frame(fields, packet, out);
  return out;
}

void add_frames(std::vector<Seed>& seeds) {
  const Frame& send = first_send();
  const auto frame = proto::parse_frame(send);
  const auto add = [&seeds](std::string name, Frame bytes) {
    seeds.push_back({"parse", std::move(name), std::move(bytes)});
  };
  add("empty", {});
  add("payload_only", {frame->packet.begin(), frame->packet.end()});
  proto::FrameFields fields = frame->fields;
  fields.vlan_tci = 0x6005;
  add("vlan", build(fields, frame->packet));
  fields = frame->fields;
  fields.version = proto::RoceVersion::kV1;
  fields.path.source.raw = {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  fields.path.destination.raw = {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  add("v1", build(fields, frame->packet));
  Frame longer = send;
  longer.resize(longer.size() + 6);
  add("trailer", longer);
  Frame arp(42);
  std::fill_n(arp.begin(), 12, std::uint8_t{0xFF});
  arp[12] = 8, arp[13] = 6;
  add("arp", arp);
}

/// See seeds_nic.cc for what they did elsewhere.
void add_bad_packets(std::vector<Seed>& seeds) {
  const proto::FrameFields fields = proto::parse_frame(first_send())->fields;
  const auto add = [&](const std::string& name, const Frame& packet) {
    seeds.push_back({"parse", "bad_" + name, build(fields, packet)});
  };
  const auto packet = [](std::uint8_t opcode, std::uint8_t flags, std::size_t size) {
    Frame out(size);
    out[0] = opcode;
    out[1] = flags;
    out[2] = out[3] = 0xFF;
    return out;
  };
  Frame to_multicast = packet(0xFF, 0, 48);
  to_multicast[5] = to_multicast[6] = to_multicast[7] = 0xFF;
  add("opcode_ff_to_multicast_qp", to_multicast);
  for (const char* hex : {"15", "1c", "1f", "60", "c0"}) {
    const auto opcode = static_cast<std::uint8_t>(std::strtoul(hex, nullptr, 16));
    add(std::string("unknown_opcode_") + hex, packet(opcode, 0, 16));
  }
  constexpr std::uint8_t kPad3 = 0x30;
  add("pad_without_payload", packet(0x04, kPad3, 16));
  add("pad_in_read_request", packet(0x0C, kPad3, 32));
  add("pad_above_payload_imm", packet(0x05, kPad3, 20));
  add("atomic_write_of_4_bytes", packet(0x1D, 0, 12 + 16 + 4 + 4));
  add("atomic_write_of_0_bytes", packet(0x1D, 0, 12 + 16 + 4));
  add("bth_only", packet(0x04, 0, 12));
  add("reth_cut", packet(0x0C, 0, 20));
  add("transport_version_1", packet(0x04, 0x01, 16));
}

void add_captures(std::vector<Seed>& seeds) {
  const auto put = [](Frame& out, std::uint32_t value, std::size_t size = 4) {
    for (std::size_t i = 0; i < size; ++i, value >>= 8) out.push_back(static_cast<std::uint8_t>(value));
  };
  const auto header = [&](std::uint32_t magic, std::uint32_t link_type) {
    Frame out;
    put(out, magic), put(out, 2, 2), put(out, 4, 2), put(out, 0), put(out, 0), put(out, 0x40000), put(out, link_type);
    return out;
  };
  const auto record = [&](Frame& out, std::uint32_t captured, std::uint32_t size) {
    put(out, 1), put(out, 2), put(out, captured), put(out, size);
    out.insert(out.end(), first_send().begin(), first_send().end());
  };
  const auto size = static_cast<std::uint32_t>(first_send().size());
  const auto add = [&seeds](std::string name, Frame bytes) {
    seeds.push_back({"parse", "pcap_" + std::move(name), std::move(bytes)});
  };
  constexpr std::uint32_t kMicro = 0xA1B2C3D4, kNano = 0xA1B23C4D, kEthernet = 1, kRawIp = 101;
  Frame good = header(kNano, kEthernet);
  record(good, size, size), record(good, size, size);
  add("two_frames", good);
  Frame micro = header(kMicro, kEthernet);
  record(micro, size, 9000);
  add("microseconds_cut_frame", micro);
  good.resize(good.size() - 5);
  add("truncated", good);
  Frame lies = header(kNano, kEthernet);
  record(lies, 0x7FFFFFFF, size);
  add("length_lies", lies);
  add("other_link_type", header(kNano, kRawIp));
  // pcapng: section header, interface description, one enhanced packet.
  const auto pcapng = [&](std::uint32_t time_high, std::uint32_t time_low) {
    Frame ng;
    put(ng, 0x0A0D0D0A), put(ng, 28), put(ng, 0x1A2B3C4D), put(ng, 1, 2), put(ng, 0, 2), put(ng, ~0u), put(ng, ~0u),
        put(ng, 28);
    put(ng, 1), put(ng, 20), put(ng, kEthernet, 2), put(ng, 0, 2), put(ng, 0), put(ng, 20);
    const std::uint32_t padded = (size + 3) / 4 * 4;
    put(ng, 6), put(ng, 32 + padded), put(ng, 0), put(ng, time_high), put(ng, time_low), put(ng, size), put(ng, size);
    ng.insert(ng.end(), first_send().begin(), first_send().end());
    ng.resize(ng.size() + padded - size);
    put(ng, 32 + padded);
    return ng;
  };
  add("pcapng", pcapng(0, 5));
  add("pcapng_in_the_year_584942", pcapng(0xFFFFFFFF, 0));  // Its nanoseconds once overflowed.
}

}  // namespace

void add_parse_seeds(std::vector<Seed>& seeds) {
  add_golden(seeds);
  add_frames(seeds);
  add_bad_packets(seeds);
  add_captures(seeds);
}

}  // namespace uroce::fuzz
