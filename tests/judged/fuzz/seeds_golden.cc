// SPDX-License-Identifier: Apache-2.0
// Seeds from the captures of the kernel's Soft-RoCE: what its requesters sent for fuzz_responder, what its responders
// answered for fuzz_requester, with QPNs, PSNs and addresses relative to ours.
#include <map>

#include "proto/frame.h"
#include "proto/packet.h"
#include "tests/judged/fuzz/seeds.h"
#include "tests/unit/proto/golden.h"
#include "verbs/nic/model/types.h"

namespace uroce::fuzz {
namespace {

using proto::Kind;
using proto::Psn;

/// Longer topics add nothing but repetition.
constexpr std::size_t kMaxPackets = 24;

struct Seen {
  std::vector<std::uint8_t> bytes;  ///< Owns what the views point to.
  proto::Path path;
  proto::PacketView packet;
};

std::vector<Seen> rc_packets(const std::vector<const proto::test::GoldenFrame*>& frames) {
  std::vector<Seen> out;
  for (const auto* frame : frames) {
    const auto parsed = proto::parse_frame(frame->bytes);
    if (!parsed) continue;
    std::vector<std::uint8_t> bytes(parsed->packet.begin(), parsed->packet.end());
    const auto packet = proto::parse_packet(bytes);  // Its view stays valid when the vector moves.
    if (packet && packet->op().service == proto::Service::kRc) {
      const auto view = *packet;
      out.push_back({std::move(bytes), parsed->fields.path, view});
    }
  }
  return out;
}

bool is_reply(Kind kind) {
  return kind == Kind::kAcknowledge || kind == Kind::kReadResponse || kind == Kind::kAtomicAcknowledge;
}

std::uint32_t answers(const proto::PacketView& packet, std::uint32_t mtu) {
  if (packet.op().kind != Kind::kReadRequest) return 1;
  const std::uint32_t length = packet.header<proto::Reth>().get<proto::Reth::DmaLength>();
  return length == 0 ? 1 : (length - 1) / mtu + 1;
}

/// The fields that a request or a response has in common with the one of the capture.
PacketSpec spec_of(const proto::PacketView& packet, Psn base) {
  PacketSpec spec;
  spec.opcode = static_cast<std::uint8_t>(packet.op().code);
  spec.psn = static_cast<std::int8_t>(std::clamp(packet.psn() - base, -128, 127));
  const auto bth = packet.bth();
  if (bth.get<proto::Bth::AckReq>() == 0 && !is_reply(packet.op().kind)) spec.flags |= PacketSpec::kNoAckReq;
  if (bth.get<proto::Bth::SolicitedEvent>() != 0) spec.flags |= PacketSpec::kSolicited;
  if (packet.op().has_payload) spec.size = static_cast<std::uint16_t>(packet.payload().size() + 1);
  if (packet.has<proto::Reth>()) {
    const auto reth = packet.header<proto::Reth>();
    spec.offset = static_cast<std::int16_t>(reth.get<proto::Reth::Va>() % 4096);
    spec.length = reth.get<proto::Reth::DmaLength>() + 1;
  }
  if (packet.has<proto::AtomicEth>()) {
    const auto atomic = packet.header<proto::AtomicEth>();
    spec.offset = static_cast<std::int16_t>(atomic.get<proto::AtomicEth::Va>() % 4096);
    spec.operand = atomic.get<proto::AtomicEth::SwapAdd>();
    spec.compare = atomic.get<proto::AtomicEth::Compare>();
  }
  if (packet.has<proto::Aeth>()) {
    spec.syndrome = static_cast<std::uint8_t>(packet.header<proto::Aeth>().get<proto::Aeth::SyndromeField>() + 1);
  }
  return spec;
}

Setup setup_of(std::uint32_t mtu) {
  Setup setup;
  while ((256u << setup.mtu) < mtu && setup.mtu < 4) ++setup.mtu;
  setup.flags = Setup::kNothingPosted;
  return setup;
}

void add_requests(NicSeed& seed, const std::vector<Seen>& packets, std::uint32_t mtu) {
  const proto::Gid sender = packets.front().path.source;
  Psn expected = packets.front().packet.psn();
  std::uint32_t qpn = packets.front().packet.dest_qp();
  for (const Seen& seen : packets) {
    if (seen.path.source != sender || is_reply(seen.packet.op().kind)) continue;
    if (seen.packet.dest_qp() != qpn) {  // A probe's next case.
      qpn = seen.packet.dest_qp();
      expected = seen.packet.psn();
      seed.add(kModify, ModifySpec{});
    }
    const PacketSpec spec = spec_of(seen.packet, expected);
    if (spec.psn == 0) expected = expected + answers(seen.packet, mtu);
    seed.add(kPacket, spec).add(kPostRecv, RecvSpec{});
  }
}

nic::SendOp operation(const proto::PacketView& last) {
  switch (last.op().kind) {
    case Kind::kWrite:
      return last.has<proto::ImmDt>() ? nic::SendOp::kWriteImm : nic::SendOp::kWrite;
    case Kind::kReadRequest:
      return nic::SendOp::kRead;
    case Kind::kFetchAdd:
      return nic::SendOp::kFetchAdd;
    case Kind::kCompareSwap:
      return nic::SendOp::kCompareSwap;
    default:
      return last.has<proto::ImmDt>() ? nic::SendOp::kSendImm : nic::SendOp::kSend;
  }
}

/// Posts what the sender of the capture must have posted, then brings the answers that it got.
void add_responses(NicSeed& seed, const std::vector<Seen>& packets, std::uint32_t mtu) {
  const proto::Gid sender = packets.front().path.source;
  Psn next = packets.front().packet.psn(), open = next;
  std::uint32_t length = 0;
  for (const Seen& seen : packets) {
    const proto::PacketView& packet = seen.packet;
    const bool is_answer = is_reply(packet.op().kind);
    if (!is_answer && seen.path.source == sender) {
      if (packet.psn() != next) {
        seed.time();  // Sent again: after a NAK, or a timeout.
        continue;
      }
      next = next + answers(packet, mtu);
      length += static_cast<std::uint32_t>(packet.payload().size());
      if (!packet.op().ends()) continue;
      SendSpec send;
      const nic::SendOp op = operation(packet);
      if (op == nic::SendOp::kRead) length = packet.header<proto::Reth>().get<proto::Reth::DmaLength>();
      if (packet.has<proto::AtomicEth>()) length = 8;
      send.op =
          static_cast<std::uint8_t>((static_cast<unsigned>(op) + 10 - static_cast<unsigned>(nic::SendOp::kSend)) % 10);
      if (packet.op().kind == Kind::kAtomicWrite) send.op = SendSpec::kAtomicWrite;
      send.local.region = kRegions - kLocal;  // kOpen, the largest.
      send.local.length = static_cast<std::uint16_t>(std::min(length, 8192u) + 1);
      seed.add(kPostSend, send);
      length = 0;
    } else if (is_answer && seen.path.destination == sender) {
      const PacketSpec spec = spec_of(packet, open);
      if (packet.psn() - open >= 0) open = spec.syndrome > 0x60 ? packet.psn() : packet.psn() + 1;
      seed.add(kPacket, spec);
    }
  }
}

/// "rc_send" of "rc_send_mtu+1_mtu1024".
std::string family(const std::string& topic) { return topic.substr(0, topic.find('_', topic.find('_') + 1)); }

}  // namespace

/// Topics of one family and MTU follow each other in one seed, each on a fresh connection.
void add_golden_seeds(std::vector<Seed>& seeds) {
  std::map<std::string, std::vector<const proto::test::GoldenFrame*>> by_capture;
  for (const auto& frame : proto::test::golden_frames()) by_capture[frame.capture].push_back(&frame);
  std::map<std::string, NicSeed> requests, responses;
  for (const auto& [capture, frames] : by_capture) {
    if (capture.ends_with(".atB.pcap")) continue;  // The same, seen from the other side.
    const std::string& topic = frames.front()->topic;
    const bool is_probe = frames.front()->is_probe();
    const auto packets = rc_packets(frames);
    if (packets.empty() || (!is_probe && packets.size() > kMaxPackets)) continue;
    const auto& facts = proto::test::sidecar(topic);
    const std::uint32_t mtu = facts.contains("mtu") ? facts["mtu"].get<std::uint32_t>() : 1024;
    const std::string name = "rxe_" + family(topic) + "_mtu" + std::to_string(mtu);
    Setup setup = setup_of(mtu);
    setup.rq_psn = setup.sq_psn = packets.front().packet.psn().value();
    const auto add = [&](std::map<std::string, NicSeed>& seeds_of, auto add_packets) {
      const auto [seed, is_new] = seeds_of.try_emplace(name, setup);
      if (!is_new) seed->second.add(kModify, ModifySpec{});
      add_packets(seed->second, packets, mtu);
    };
    add(requests, add_requests);
    if (!is_probe) add(responses, add_responses);
  }
  for (const auto& [name, seed] : requests) seeds.push_back({"responder", name, seed.bytes()});
  for (const auto& [name, seed] : responses) seeds.push_back({"requester", name, seed.bytes()});
}

}  // namespace uroce::fuzz
