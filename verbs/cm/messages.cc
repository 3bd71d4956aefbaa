// SPDX-License-Identifier: Apache-2.0
#include "verbs/cm/messages.h"

#include <algorithm>

#include "proto/pkey.h"
#include "verbs/cm/times.h"

namespace uroce::cm {
namespace {

using wire::Attribute;
using wire::MessageBuilder;

constexpr std::uint16_t kNoLid = 0xFFFF;
constexpr std::uint8_t kMaxCount = 7;

void put(Bytes from, MutBytes to) { std::copy(from.begin(), from.end(), to.begin()); }

/// The program's data behind the addresses.
void put_request_data(const Connection& c, Bytes private_data, MutBytes to) {
  wire::build_addresses({c.info.local.address, c.info.remote.address, c.info.local.port}, to);
  put(private_data, to.subspan(wire::CmaHeader::kSize));
}

template <class M>
void put_ids(MessageBuilder& builder, Id local_id, std::uint32_t remote_id) {
  builder.as<M>().template set<typename M::LocalId>(local_id).template set<typename M::RemoteId>(remote_id);
}

}  // namespace

Mad make_req(const Connection& c, const CmConfig& config, const ConnectRequest& request) {
  using wire::Req;
  Mad mad;
  MessageBuilder builder(mad, Attribute::kReq, c.request_tid);
  builder.mad().set<wire::Mad::Modifier>(request.params.ece.attr_mod);
  const auto req = builder.as<Req>();
  req.set<Req::LocalId>(c.id)
      .set<Req::Vendor>(request.params.ece.vendor_id)
      .set<Req::ServiceId>(c.info.service_id)
      .set<Req::CaGuid>(config.guid);
  req.set<Req::Qpn>(request.params.qpn)
      .set<Req::ResponderResources>(request.params.responder_resources)
      .set<Req::InitiatorDepth>(request.params.initiator_depth)
      .set<Req::RemoteTimeout>(kResponseTimeout)
      .set<Req::TransportType>(c.info.transport == Transport::kUc ? 1 : 0)
      .set<Req::FlowControl>(request.params.flow_control)
      .set<Req::StartingPsn>(c.info.local_psn)
      .set<Req::LocalTimeout>(kResponseTimeout)
      .set<Req::RetryCount>(c.info.retry_count)
      .set<Req::PKey>(proto::kDefaultPkey)
      .set<Req::PathMtu>(c.info.path.mtu)
      .set<Req::RnrRetryCount>(std::min(kMaxCount, request.params.rnr_retry_count))
      .set<Req::MaxRetries>(kMaxRetries)
      .set<Req::Srq>(request.params.srq);
  req.set<Req::LocalLid>(kNoLid)
      .set<Req::RemoteLid>(kNoLid)
      .set<Req::FlowLabel>(c.info.path.flow_label)
      .set<Req::TClass>(c.info.path.tclass)
      .set<Req::HopLimit>(c.info.path.hop_limit)
      .set<Req::AckTimeout>(c.info.ack_timeout);
  wire::set_gid<Req::LocalGidHigh, Req::LocalGidLow>(req, c.info.local.address);
  wire::set_gid<Req::RemoteGidHigh, Req::RemoteGidLow>(req, c.info.remote.address);
  put_request_data(c, Bytes(request.private_data.bytes).first(request.private_data.size), builder.private_data());
  return mad;
}

Mad make_rep(const Connection& c, const CmConfig& config, const ConnectionParams& params, Bytes private_data) {
  using wire::Rep;
  Mad mad;
  MessageBuilder builder(mad, Attribute::kRep, c.request_tid);
  builder.mad().set<wire::Mad::Modifier>(params.ece.attr_mod);
  put_ids<Rep>(builder, c.id, c.remote_id);
  builder.as<Rep>()
      .set<Rep::Qpn>(params.qpn)
      .set<Rep::VendorHigh>(static_cast<std::uint8_t>(params.ece.vendor_id >> 16))
      .set<Rep::VendorMiddle>(static_cast<std::uint8_t>(params.ece.vendor_id >> 8))
      .set<Rep::VendorLow>(static_cast<std::uint8_t>(params.ece.vendor_id))
      .set<Rep::StartingPsn>(c.info.local_psn)
      .set<Rep::ResponderResources>(params.responder_resources)
      .set<Rep::InitiatorDepth>(params.initiator_depth)
      .set<Rep::TargetAckDelay>(kAckDelay)
      .set<Rep::FlowControl>(params.flow_control)
      .set<Rep::RnrRetryCount>(std::min(kMaxCount, params.rnr_retry_count))
      .set<Rep::Srq>(params.srq)
      .set<Rep::CaGuid>(config.guid);
  put(private_data, builder.private_data());
  return mad;
}

Mad make_rtu(const Connection& c) {
  Mad mad;
  MessageBuilder builder(mad, Attribute::kRtu, c.request_tid);
  put_ids<wire::Rtu>(builder, c.id, c.remote_id);
  return mad;
}

Mad make_dreq(const Connection& c) {
  Mad mad;
  MessageBuilder builder(mad, Attribute::kDreq, own_tid(c.id));
  put_ids<wire::Dreq>(builder, c.id, c.remote_id);
  builder.as<wire::Dreq>().set<wire::Dreq::RemoteQpn>(c.info.remote_qpn);
  return mad;
}

Mad make_drep(Id local_id, std::uint32_t remote_id, std::uint64_t tid) {
  Mad mad;
  MessageBuilder builder(mad, Attribute::kDrep, tid);
  put_ids<wire::Drep>(builder, local_id, remote_id);
  return mad;
}

Mad make_mra(const Connection& c, About about) {
  using wire::Mra;
  Mad mad;
  MessageBuilder builder(mad, Attribute::kMra, c.request_tid);
  put_ids<Mra>(builder, c.id, c.remote_id);
  builder.as<Mra>().set<Mra::Message>(static_cast<std::uint8_t>(about)).set<Mra::ServiceTimeout>(kServiceTimeout);
  return mad;
}

Mad make_rej(Id local_id, std::uint32_t remote_id, std::uint64_t tid, const Refusal& refusal) {
  using wire::Rej;
  Mad mad;
  MessageBuilder builder(mad, Attribute::kRej, tid);
  put_ids<Rej>(builder, local_id, remote_id);
  builder.as<Rej>()
      .set<Rej::Message>(static_cast<std::uint8_t>(refusal.about))
      .set<Rej::InfoLength>(static_cast<std::uint8_t>(refusal.info.size()))
      .set<Rej::Reason>(static_cast<std::uint16_t>(refusal.reason));
  put(refusal.info, builder.additional_info());
  put(refusal.private_data, builder.private_data());
  return mad;
}

Mad make_sidr_req(const Connection& c, Bytes private_data) {
  using wire::SidrReq;
  Mad mad;
  MessageBuilder builder(mad, Attribute::kSidrReq, c.request_tid);
  builder.as<SidrReq>()
      .set<SidrReq::RequestId>(c.id)
      .set<SidrReq::PKey>(proto::kDefaultPkey)
      .set<SidrReq::ServiceId>(c.info.service_id);
  put_request_data(c, private_data, builder.private_data());
  return mad;
}

Mad make_sidr_rep(std::uint32_t request_id, std::uint64_t tid, std::uint64_t service_id, const SidrReply& reply) {
  using wire::SidrRep;
  Mad mad;
  MessageBuilder builder(mad, Attribute::kSidrRep, tid);
  const auto rep = builder.as<SidrRep>();
  rep.set<SidrRep::RequestId>(request_id)
      .set<SidrRep::Status>(static_cast<std::uint8_t>(reply.status))
      .set<SidrRep::ServiceId>(service_id);
  if (reply.status == SidrStatus::kValid) rep.set<SidrRep::Qpn>(reply.qpn).set<SidrRep::QKey>(reply.qkey);
  put(Bytes(reply.private_data.bytes).first(reply.private_data.size), builder.private_data());
  return mad;
}

}  // namespace uroce::cm
