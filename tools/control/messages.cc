// SPDX-License-Identifier: Apache-2.0
#include "tools/control/messages.h"

#include <algorithm>

#include "tools/control/wire.h"

namespace uroce::tools {
namespace {

constexpr std::size_t kMaxText = 1000;
constexpr std::uint32_t kMaxPsn = 0xFFFFFF;

constexpr std::uint8_t kFlagBidirectional = 1, kFlagVerify = 2, kFlagInline = 4, kFlagEvents = 8;

constexpr std::uint8_t flag(bool set, std::uint8_t bit) { return set ? bit : std::uint8_t{0}; }

}  // namespace

void encode_header(const Header& header, std::uint8_t* out) {
  store_be<4>(out, header.magic);
  store_be<2>(out + 4, header.version);
  store_be<2>(out + 6, header.type);
  store_be<4>(out + 8, header.length);
}

Header decode_header(const std::uint8_t* bytes) {
  return {static_cast<std::uint32_t>(load_be<4>(bytes)), static_cast<std::uint16_t>(load_be<2>(bytes + 4)),
          static_cast<std::uint16_t>(load_be<2>(bytes + 6)), static_cast<std::uint32_t>(load_be<4>(bytes + 8))};
}

std::vector<std::uint8_t> encode(const Hello& h) {
  WireWriter out;
  out.put(h.qps).put(h.max_queue_wrs).put(h.max_completions).put(h.max_sges).put(h.active_mtu);
  out.put(h.rd_atomic_target).put(h.rd_atomic_initiator).put(h.atomics);
  return out.bytes();
}

std::optional<Hello> decode_hello(Bytes bytes) {
  WireReader in(bytes);
  Hello h;
  h.qps = in.get<std::uint32_t>();
  h.max_queue_wrs = in.get<std::uint32_t>();
  h.max_completions = in.get<std::uint32_t>();
  h.max_sges = in.get<std::uint32_t>();
  h.active_mtu = in.get<std::uint32_t>();
  h.rd_atomic_target = in.get<std::uint8_t>();
  h.rd_atomic_initiator = in.get<std::uint8_t>();
  h.atomics = in.get<std::uint8_t>();
  if (!in.complete()) return std::nullopt;
  return h;
}

std::vector<std::uint8_t> encode(const Workload& w) {
  WireWriter out;
  out.put(static_cast<std::uint8_t>(w.mix)).put(w.qps).put(w.size).put(w.iterations).put(w.mtu);
  out.put(w.depth).put(w.receive_depth).put(w.sges);
  out.put(static_cast<std::uint8_t>(flag(w.bidirectional, kFlagBidirectional) | flag(w.verify, kFlagVerify) |
                                    flag(w.inline_data, kFlagInline) | flag(w.events, kFlagEvents)));
  return out.bytes();
}

std::optional<Workload> decode_workload(Bytes bytes) {
  WireReader in(bytes);
  Workload w;
  w.mix = static_cast<Mix>(in.get<std::uint8_t>());
  w.qps = in.get<std::uint32_t>();
  w.size = in.get<std::uint64_t>();
  w.iterations = in.get<std::uint64_t>();
  w.mtu = in.get<std::uint32_t>();
  w.depth = in.get<std::uint32_t>();
  w.receive_depth = in.get<std::uint32_t>();
  w.sges = in.get<std::uint32_t>();
  const auto flags = in.get<std::uint8_t>();
  w.bidirectional = (flags & kFlagBidirectional) != 0;
  w.verify = (flags & kFlagVerify) != 0;
  w.inline_data = (flags & kFlagInline) != 0;
  w.events = (flags & kFlagEvents) != 0;
  if (!in.complete() || flags > 15 || check(w).has_value()) return std::nullopt;
  return w;
}

std::vector<std::uint8_t> encode(const PeerMetadata& m) {
  WireWriter out;
  out.put_bytes(m.gid).put(m.lid).put(static_cast<std::uint32_t>(m.qps.size()));
  for (const QpMetadata& qp : m.qps) out.put(qp.qpn).put(qp.psn).put(qp.rkey).put(qp.address);
  return out.bytes();
}

std::optional<PeerMetadata> decode_metadata(Bytes bytes) {
  WireReader in(bytes);
  PeerMetadata m;
  in.get_bytes(m.gid);
  m.lid = in.get<std::uint16_t>();
  const auto count = in.get<std::uint32_t>();
  if (count > kMaxQps) return std::nullopt;
  for (std::uint32_t i = 0; i < count; ++i) {
    QpMetadata qp;
    qp.qpn = in.get<std::uint32_t>();
    qp.psn = in.get<std::uint32_t>();
    qp.rkey = in.get<std::uint32_t>();
    qp.address = in.get<std::uint64_t>();
    if (qp.qpn > 0xFFFFFF || qp.psn > kMaxPsn) return std::nullopt;
    m.qps.push_back(qp);
  }
  if (!in.complete()) return std::nullopt;
  return m;
}

std::vector<std::uint8_t> encode(const Progress& p) { return WireWriter().put(p.qp).put(p.count).bytes(); }

std::optional<Progress> decode_progress(Bytes bytes) {
  WireReader in(bytes);
  Progress p;
  p.qp = in.get<std::uint32_t>();
  p.count = in.get<std::uint64_t>();
  if (!in.complete()) return std::nullopt;
  return p;
}

std::vector<std::uint8_t> encode(const Verdict& v) {
  WireWriter out;
  out.put(v.checked_messages).put(v.checked_bytes).put(v.wrong_messages);
  out.put_bytes(encode_text(v.first_error));
  return out.bytes();
}

std::optional<Verdict> decode_verdict(Bytes bytes) {
  WireReader in(bytes);
  Verdict v;
  v.checked_messages = in.get<std::uint64_t>();
  v.checked_bytes = in.get<std::uint64_t>();
  v.wrong_messages = in.get<std::uint64_t>();
  if (bytes.size() < 24) return std::nullopt;
  v.first_error = decode_text(in.rest());
  return v;
}

std::vector<std::uint8_t> encode(const Listening& l) {
  return WireWriter().put_bytes(l.address.gid).put(l.address.port).put(l.session).bytes();
}

std::optional<Listening> decode_listening(Bytes bytes) {
  WireReader in(bytes);
  Listening l;
  in.get_bytes(l.address.gid);
  l.address.port = in.get<std::uint16_t>();
  l.session = in.get<std::uint32_t>();
  if (!in.complete()) return std::nullopt;
  return l;
}

std::vector<std::uint8_t> encode(const QpOffer& o) {
  WireWriter out;
  out.put(kMagic).put(kProtocolVersion).put(o.session).put(o.index).put(o.qps).put(o.size).put(o.rkey).put(o.address);
  static_assert(4 + 2 + 4 + 4 + 4 + 8 + 4 + 8 <= 56);
  return out.bytes();
}

std::optional<QpOffer> decode_qp_offer(Bytes bytes) {
  constexpr std::size_t kSize = 38;
  if (bytes.size() < kSize) return std::nullopt;
  WireReader in(bytes.first(kSize));
  if (in.get<std::uint32_t>() != kMagic || in.get<std::uint16_t>() != kProtocolVersion) return std::nullopt;
  QpOffer o;
  o.session = in.get<std::uint32_t>();
  o.index = in.get<std::uint32_t>();
  o.qps = in.get<std::uint32_t>();
  o.size = in.get<std::uint64_t>();
  o.rkey = in.get<std::uint32_t>();
  o.address = in.get<std::uint64_t>();
  return o;
}

std::vector<std::uint8_t> encode_text(const std::string& text) {
  return {text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), kMaxText))};
}

std::string decode_text(Bytes bytes) {
  std::string text(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), kMaxText)));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace uroce::tools
