#include "tools/explain/packets/packet.h"

#include <algorithm>

#include "proto/packet.h"

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
  kIpv4Only = 228,
  kIpv6Only = 229,
  kCooked2 = 276,
};
constexpr std::size_t kNullSize = 4, kCookedSize = 16, kCooked2Size = 20;
constexpr std::size_t kLongest = 262'144;

std::uint16_t ip_type(Bytes network) {
  return !network.empty() && network[0] >> 4 == 6 ? kEtherTypeIpv6 : kEtherTypeIpv4;
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
    out.length = reth.get<Reth::DmaLength>();
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

/// An Ethernet frame around what lies behind another link header. `cut` bytes of it were not captured; they become
/// zeros, so that the headers in front of them can be read.
Bytes Dissector::as_ethernet(std::uint16_t type, Bytes network, std::size_t cut) {
  scratch_.assign(Ethernet::kSize, 0);
  store_be<2>(scratch_.data() + Ethernet::kSize - 2, type);
  scratch_.insert(scratch_.end(), network.begin(), network.end());
  scratch_.resize(scratch_.size() + std::min(cut, kLongest));
  return scratch_;
}

std::optional<Dissector::Link> Dissector::link(const Frame& frame) {
  const Bytes bytes = frame.bytes;
  const std::size_t cut = frame.wire_size - bytes.size();
  const auto behind = [&](std::size_t header) { return bytes.subspan(std::min(header, bytes.size())); };
  switch (frame.link_type) {
    case kEthernet:
      if (cut == 0) return Link{bytes, frame.direction, 0};
      scratch_.assign(bytes.begin(), bytes.end());
      scratch_.resize(scratch_.size() + std::min(cut, kLongest));
      return Link{scratch_, frame.direction, 0};
    case kNull:
    case kLoop:
      return Link{as_ethernet(ip_type(behind(kNullSize)), behind(kNullSize), cut), frame.direction, 0};
    case kRaw:
    case kRawOld:
    case kIpv4Only:
    case kIpv6Only:
      return Link{as_ethernet(ip_type(bytes), bytes, cut), frame.direction, 0};
    case kCooked:
      if (bytes.size() < kCookedSize) break;
      return Link{as_ethernet(static_cast<std::uint16_t>(load_be<2>(bytes.data() + 14)), behind(kCookedSize), cut),
                  cooked_direction(load_be<2>(bytes.data())), 0};
    case kCooked2:
      if (bytes.size() < kCooked2Size) break;
      return Link{as_ethernet(static_cast<std::uint16_t>(load_be<2>(bytes.data())), behind(kCooked2Size), cut),
                  cooked_direction(bytes[10]), static_cast<std::uint32_t>(load_be<4>(bytes.data() + 4))};
    default:
      return std::nullopt;
  }
  return Link{{}, frame.direction, 0};
}

Result<Packet, Untold> Dissector::packet(const Frame& frame, std::uint64_t number) {
  const auto link_layer = link(frame);
  if (!link_layer) return Err{Untold{Untold::Why::kLinkType, "link type " + std::to_string(frame.link_type)}};
  const auto parsed = parse_frame(link_layer->ethernet);
  if (!parsed) return Err{untold(parsed.error())};
  const auto view = parse_packet(parsed->packet);
  if (!view) return Err{Untold{Untold::Why::kBroken, std::string(to_string(view.error()))}};

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
  out.cut = frame.bytes.size() < frame.wire_size;
  read_headers(*view, out);
  out.comment.assign(frame.comment);
  if (out.cut) return out;
  out.icrc = icrc_ok(*parsed) ? Icrc::kRight : Icrc::kWrong;
  if (out.icrc == Icrc::kWrong) return out;  // Whatever it says may be wrong.
  if (out.payload != 0) out.content = rules::content(*view, fields.path);
  rules::check_packet(*view, [&](rules::Breach breach) { out.breaches.push_back(std::move(breach)); });
  out.cm = cm_message(*view);
  return out;
}

}  // namespace uroce::explain
