// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/replay/difference.h"

#include <algorithm>

#include "proto/address.h"
#include "proto/describe/describe.h"

namespace uroce::replay {
namespace {

using proto::PacketView;

template <class T>
void compare(Differences& out, const std::string& aspect, const T& rxe, const T& ours) {
  if (rxe == ours) return;
  if constexpr (std::is_same_v<T, std::string>) {
    out.push_back({aspect, rxe, ours, {}});
  } else {
    out.push_back({aspect, std::to_string(rxe), std::to_string(ours), {}});
  }
}

void compare_paths(Differences& out, const proto::Path& rxe, const proto::Path& ours) {
  compare(out, "source address", proto::to_string(rxe.source), proto::to_string(ours.source));
  compare(out, "destination address", proto::to_string(rxe.destination), proto::to_string(ours.destination));
  compare(out, "source port", rxe.source_port, ours.source_port);
  compare(out, "traffic class", rxe.tclass, ours.tclass);
  compare(out, "hop limit", rxe.hop_limit, ours.hop_limit);
  compare(out, "flow label", rxe.flow_label, ours.flow_label);
}

/// The credit count of an ACK is an aspect of its own: it says nothing about the request that is answered.
void compare_syndromes(Differences& out, std::uint8_t rxe, std::uint8_t ours) {
  const proto::Syndrome a = proto::decode_syndrome(rxe);
  const proto::Syndrome b = proto::decode_syndrome(ours);
  const auto* ack_a = std::get_if<proto::syndrome::Ack>(&a);
  const auto* ack_b = std::get_if<proto::syndrome::Ack>(&b);
  if (ack_a != nullptr && ack_b != nullptr) {
    compare(out, "credit count", ack_a->credit_code, ack_b->credit_code);
  } else {
    compare(out, "AETH syndrome", proto::describe(a), proto::describe(b));
  }
}

void compare_headers(Differences& out, const PacketView& rxe, const PacketView& ours) {
  for (std::size_t i = 0; i < rxe.op().stack.count; ++i) {
    const proto::HeaderInfo& header = proto::header_info(rxe.op().stack.ids[i]);
    const int at_rxe = rxe.op().stack.offset_of(header.id);
    const int at_ours = ours.op().stack.offset_of(header.id);
    if (at_ours < 0) continue;  // The opcodes differ, and that is said.
    for (const proto::FieldInfo& field : header.fields) {
      const std::uint64_t a = field.load(rxe.bytes().data() + at_rxe);
      const std::uint64_t b = field.load(ours.bytes().data() + at_ours);
      if (header.id == proto::HeaderId::kAeth && field.name == "syndrome") {
        compare_syndromes(out, static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b));
      } else {
        compare(out, std::string(header.name) + ' ' + std::string(field.name), a, b);
      }
    }
  }
}

}  // namespace

std::string words(Bytes packet) { return proto::one_line(packet); }

Differences compare_packets(const proto::FrameView& rxe, const proto::Path& path, Bytes ours) {
  Differences out;
  compare_paths(out, rxe.fields.path, path);
  const auto a = proto::parse_packet(rxe.packet);
  const auto b = proto::parse_packet(ours);
  if (!a || !b) return {{"packet", words(rxe.packet), words(ours), {}}};
  compare_headers(out, *a, *b);
  compare(out, "payload length", a->payload().size(), b->payload().size());
  if (a->payload().size() == b->payload().size()) {
    const auto first = std::mismatch(a->payload().begin(), a->payload().end(), b->payload().begin());
    if (first.first != a->payload().end()) {
      const std::string at = " at byte " + std::to_string(first.first - a->payload().begin());
      out.push_back({"payload", std::to_string(*first.first) + at, std::to_string(*first.second) + at, {}});
    }
  }
  if (!std::equal(a->pad().begin(), a->pad().end(), b->pad().begin(), b->pad().end())) {
    out.push_back({"pad", std::to_string(a->pad().size()) + " bytes", "other bytes", {}});
  }
  const proto::IcrcCheck icrc = proto::check_icrc(path, ours);
  if (!icrc.ok || icrc.ip_id != 0) out.push_back({"ICRC", "right", "wrong", {}});
  return out;
}

}  // namespace uroce::replay
