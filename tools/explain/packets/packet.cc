// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/packets/packet.h"

#include <algorithm>

#include "proto/packet.h"
#include "tools/explain/packets/injected.h"
#include "tools/explain/packets/wrapping.h"

namespace uroce::explain {
namespace {

using namespace proto;  // NOLINT: everything here is about its values.

// Link types of capture files, and the sizes of their headers.
enum LinkType : std::uint32_t {
  kNull = 0,
  kEthernet = 1,
  kRawOld = 12,
  kRaw = 101,
  kLoop = 108,
  kCooked = 113,
  kEndace = 197,
  kIpv4Only = 228,
  kIpv6Only = 229,
  kInfiniband = 247,
  kCooked2 = 276,
};
constexpr std::size_t kNullSize = 4, kCookedSize = 16, kCooked2Size = 20;
constexpr std::size_t kLongest = 262'144;

std::uint16_t ip_type(Bytes network) {
  return !network.empty() && network[0] >> 4 == 6 ? kEtherTypeIpv6 : kEtherTypeIpv4;
}

/// For a network that we do not read.
std::string name_of(std::uint32_t link_type) {
  std::string text = "link type " + std::to_string(link_type);
  if (link_type == kEndace) text += " (Endace ERF)";
  if (link_type == kInfiniband) text += " (InfiniBand)";
  return text;
}

Direction cooked_direction(std::uint64_t type) {
  return type == 0 ? Direction::kReceived : type == 4 ? Direction::kSent : Direction::kUnknown;
}

std::shared_ptr<const CmMessage> cm_message(const PacketView& view) {
  if (view.dest_qp() != cm::kManagementQpn) return nullptr;
  const auto parsed = cm::parse_message(view);
  if (!parsed) return nullptr;
  auto message = std::make_shared<CmMessage>();
  message->attribute = parsed->attribute();
  const auto ids = [&]<class M>(ConstView<M> fields) {
    message->local_id = fields.template get<typename M::LocalId>();
    message->remote_id = fields.template get<typename M::RemoteId>();
  };
  switch (parsed->attribute()) {
    case cm::Attribute::kReq: {
      const auto req = parsed->as<cm::Req>();
      message->local_id = req.get<cm::Req::LocalId>();
      message->qpn = req.get<cm::Req::Qpn>();
      message->psn = Psn{req.get<cm::Req::StartingPsn>()};
      message->service_id = req.get<cm::Req::ServiceId>();
      message->transport = req.get<cm::Req::TransportType>();
      message->mtu_code = req.get<cm::Req::PathMtu>();
      message->retry_count = req.get<cm::Req::RetryCount>();
      message->rnr_retry_count = req.get<cm::Req::RnrRetryCount>();
      message->ack_timeout = req.get<cm::Req::AckTimeout>();
      break;
    }
    case cm::Attribute::kRep: {
      const auto rep = parsed->as<cm::Rep>();
      ids(rep);
      message->qpn = rep.get<cm::Rep::Qpn>();
      message->psn = Psn{rep.get<cm::Rep::StartingPsn>()};
      message->rnr_retry_count = rep.get<cm::Rep::RnrRetryCount>();
      break;
    }
    case cm::Attribute::kRej:
      ids(parsed->as<cm::Rej>());
      message->reason = parsed->as<cm::Rej>().get<cm::Rej::Reason>();
      break;
    case cm::Attribute::kMra:
      ids(parsed->as<cm::Mra>());
      break;
    case cm::Attribute::kRtu:
      ids(parsed->as<cm::Rtu>());
      break;
    case cm::Attribute::kDreq:
      ids(parsed->as<cm::Dreq>());
      message->qpn = parsed->as<cm::Dreq>().get<cm::Dreq::RemoteQpn>();
      break;
    case cm::Attribute::kDrep:
      ids(parsed->as<cm::Drep>());
      break;
    case cm::Attribute::kSidrReq:
      message->local_id = parsed->as<cm::SidrReq>().get<cm::SidrReq::RequestId>();
      message->service_id = parsed->as<cm::SidrReq>().get<cm::SidrReq::ServiceId>();
      break;
    case cm::Attribute::kSidrRep:
      message->local_id = parsed->as<cm::SidrRep>().get<cm::SidrRep::RequestId>();
      message->qpn = parsed->as<cm::SidrRep>().get<cm::SidrRep::Qpn>();
      message->reason = parsed->as<cm::SidrRep>().get<cm::SidrRep::Status>();
      break;
    case cm::Attribute::kLap:
      ids(parsed->as<cm::Lap>());
      break;
    case cm::Attribute::kApr:
      ids(parsed->as<cm::Apr>());
      break;
  }
  return message;
}

void read_headers(const PacketView& view, Packet& out) {
  const auto bth = view.bth();
  out.op = &view.op();
  out.dest_qp = view.dest_qp();
  out.psn = view.psn();
  out.ack_request = bth.get<Bth::AckReq>() != 0;
  out.solicited = bth.get<Bth::SolicitedEvent>() != 0;
  out.payload = static_cast<std::uint32_t>(view.payload().size());
  out.icrc_value = view.icrc();
  std::copy_n(view.bytes().begin(), std::min(view.bytes().size(), out.head.size()), out.head.begin());
  if (view.has<Reth>()) {
    const auto reth = view.header<Reth>();
    out.va = reth.get<Reth::Va>();
    out.rkey = reth.get<Reth::RKey>();
    if (!out.length_cut) out.length = reth.get<Reth::DmaLength>();
  }
  if (view.has<AtomicEth>()) {
    const auto atomic = view.header<AtomicEth>();
    out.va = atomic.get<AtomicEth::Va>();
    out.rkey = atomic.get<AtomicEth::RKey>();
    out.length = 8;
  }
  if (view.has<Aeth>()) {
    out.syndrome = view.header<Aeth>().get<Aeth::SyndromeField>();
    out.msn = view.header<Aeth>().get<Aeth::Msn>();
  }
  if (view.has<AtomicAckEth>()) out.original = view.header<AtomicAckEth>().get<AtomicAckEth::Original>();
  if (view.has<Deth>()) {
    out.source_qp = view.header<Deth>().get<Deth::SourceQp>();
    out.qkey = view.header<Deth>().get<Deth::QKey>();
  }
}

/// Bytes from BTH on without which nothing true can be told: of RETH, only the length is missed.
std::size_t headers_needed(const OpcodeInfo& op) {
  const int reth = op.stack.offset_of(HeaderId::kReth);
  return reth > 0 ? static_cast<std::size_t>(reth) : op.stack.bytes;
}

Untold untold(FrameError error) {
  switch (error) {
    case FrameError::kOtherEtherType:
    case FrameError::kNotUdp:
    case FrameError::kNotRocePort:
    case FrameError::kNotIba:
      return {Untold::Why::kNotRoce, std::string(to_string(error))};
    default:
      return {Untold::Why::kBroken, std::string(to_string(error))};
  }
}

}  // namespace

bool is_cooked(std::uint32_t link_type) { return link_type == kCooked || link_type == kCooked2; }

/// An Ethernet frame around what lies behind another link header. `cut` bytes of it were not captured; they become
/// zeros, so that the headers in front of them can be read.
Bytes Dissector::as_ethernet(std::uint16_t type, Bytes network, std::size_t cut) {
  std::vector<std::uint8_t> frame(Ethernet::kSize);
  store_be<2>(frame.data() + Ethernet::kSize - 2, type);
  frame.insert(frame.end(), network.begin(), network.end());
  frame.resize(frame.size() + std::min(cut, kLongest));
  scratch_ = std::move(frame);  // `network` may lie in it.
  return scratch_;
}

std::optional<Dissector::Link> Dissector::link(const Frame& frame) {
  const Bytes bytes = frame.bytes;
  const auto behind = [&](std::size_t header) { return bytes.subspan(std::min(header, bytes.size())); };
  switch (frame.link_type) {
    case kEthernet:
      return Link{bytes, frame.direction, 0};
    case kNull:
    case kLoop:
      return Link{as_ethernet(ip_type(behind(kNullSize)), behind(kNullSize), 0), frame.direction, 0};
    case kRaw:
    case kRawOld:
    case kIpv4Only:
    case kIpv6Only:
      return Link{as_ethernet(ip_type(bytes), bytes, 0), frame.direction, 0};
    case kCooked:
      if (bytes.size() < kCookedSize) break;
      return Link{as_ethernet(static_cast<std::uint16_t>(load_be<2>(bytes.data() + 14)), behind(kCookedSize), 0),
                  cooked_direction(load_be<2>(bytes.data())), 0};
    case kCooked2:
      if (bytes.size() < kCooked2Size) break;
      return Link{as_ethernet(static_cast<std::uint16_t>(load_be<2>(bytes.data())), behind(kCooked2Size), 0),
                  cooked_direction(bytes[10]), static_cast<std::uint32_t>(load_be<4>(bytes.data() + 4))};
    default:
      return std::nullopt;
  }
  return Link{{}, frame.direction, 0};
}

/// Takes off what lies around the frame, and makes up for what was cut off: `outside` bytes, if the IP header does not
/// tell.
Dissector::Core Dissector::core(Bytes ethernet, std::size_t outside) {
  const Unwrapped inner = unwrap(ethernet);
  const std::size_t cut = missing_bytes(inner.type, inner.network).value_or(outside);
  const Extensions extensions = inner.type == kEtherTypeIpv6 ? extensions_of(inner.network) : Extensions{};
  const std::size_t captured = Ethernet::kSize + inner.network.size() - extensions.size;
  if (extensions.size != 0) {
    return {as_ethernet(inner.type, without(extensions, inner.network), cut), captured, cut != 0, inner.tunnel};
  }
  if (inner.tunnel.empty() && inner.tags < 2 && cut == 0) return {ethernet, ethernet.size(), false, {}};
  return {as_ethernet(inner.type, inner.network, cut), captured, cut != 0, inner.tunnel};
}

std::string_view Packet::lost_when_sent() const { return injected(comment, "dropped"); }

std::string_view Packet::lost_on_receipt() const {
  const std::string_view dropped = injected(receiver_comment, "dropped");
  return dropped.empty() ? injected(receiver_comment, "corrupted") : dropped;
}

Result<Packet, Untold> Dissector::packet(const Frame& frame, std::uint64_t number) {
  const auto link_layer = link(frame);
  if (!link_layer) return Err{Untold{Untold::Why::kLinkType, name_of(frame.link_type)}};
  const Core frame_core = core(link_layer->ethernet, frame.wire_size - frame.bytes.size());
  const auto parsed = parse_frame(frame_core.ethernet);
  if (!parsed) return Err{untold(parsed.error())};
  const auto view = parse_packet(parsed->packet);
  if (!view) return Err{Untold{Untold::Why::kBroken, std::string(to_string(view.error()))}};
  const auto in_front = static_cast<std::size_t>(parsed->packet.data() - frame_core.ethernet.data());
  const std::size_t captured = frame_core.captured_end - std::min(frame_core.captured_end, in_front);

  Packet out;
  const FrameFields& fields = parsed->fields;
  out.place = {file_, number};
  out.tap = file_ * 65536 + (frame.interface * 251 + link_layer->interface) % 65536;
  out.direction = link_layer->direction;
  out.time_ns = frame.time_ns;
  out.source = fields.path.source;
  out.destination = fields.path.destination;
  out.source_port = fields.path.source_port;
  out.ip_id = fields.ip_id;
  out.tclass = fields.path.tclass;
  out.roce_v1 = fields.version == RoceVersion::kV1;
  out.cut = frame_core.cut;
  out.tunnel = frame_core.tunnel;
  if (out.cut && captured < headers_needed(view->op())) {
    return Err{Untold{Untold::Why::kBroken, "cut off inside its headers"}};
  }
  out.length_cut = out.cut && captured < view->op().stack.bytes;
  read_headers(*view, out);
  const bool by_receiver = out.direction == Direction::kReceived || is_of_receiver(frame.comment);
  (by_receiver ? out.receiver_comment : out.comment).assign(frame.comment);
  if (out.cut) return out;
  out.icrc = icrc_ok(*parsed) ? Icrc::kRight : Icrc::kWrong;
  if (out.icrc == Icrc::kWrong) return out;  // Whatever it says may be wrong.
  if (out.payload != 0) out.content = rules::content(*view, fields.path);
  rules::check_packet(*view, [&](rules::Breach breach) { out.breaches.push_back(std::move(breach)); });
  out.cm = cm_message(*view);
  return out;
}

}  // namespace uroce::explain
