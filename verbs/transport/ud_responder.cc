#include "verbs/transport/ud_responder.h"

#include <cerrno>

#include "proto/frame.h"
#include "verbs/transport/receive_completion.h"
#include "verbs/transport/sges.h"

namespace uroce::nic {

using proto::PacketView;

UdResponder::UdResponder(QpContext& context) : c_(context), rq_(context.init.max_recv_wr, context.init.max_recv_sge) {}

Errno UdResponder::post(const RecvWr& wr) {
  if (wr.sges.size() > c_.init.max_recv_sge) return EINVAL;
  if (c_.init.max_recv_wr == 0 || rq_.full()) return ENOMEM;
  rq_.push(wr, total_length(wr.sges));
  return 0;
}

void UdResponder::flush() {
  while (!rq_.empty()) complete_receive(failed_receive(WcStatus::kWrFlushErr));
}

void UdResponder::clear() {
  rq_.clear();
  failure_.reset();
}

bool UdResponder::can_take(const PacketView& packet) {
  // IBTA Vol 1, 10.2.5.
  if (packet.header<proto::Deth>().get<proto::Deth::QKey>() != c_.attr.qkey) {
    ++c_.env.counters.qkey_violations;
    return false;
  }
  const std::size_t size = packet.payload().size();
  if (size > proto::mtu_bytes(c_.env.config.mtu_max)) return false;
  const auto& refuse_receive = c_.env.config.faults.refuse_receive;
  if (rq_.empty() || (refuse_receive && refuse_receive(c_.qpn, packet.psn()))) return false;
  // 9.9.3: class D, the receive stays, for a shorter one.
  return proto::Grh::kSize + size <= rq_.front().length;
}

void UdResponder::on_request(const Arrival& arrival) {
  const PacketView& packet = arrival.packet;
  if (!can_take(packet)) return;
  const auto grh = proto::grh_area(arrival.path, packet.bytes().size(), arrival.ip_id);
  if (!scatter(c_.env.mrs, c_.init.pd, rq_.front_sges(), 0, grh) ||
      !scatter(c_.env.mrs, c_.init.pd, rq_.front_sges(), grh.size(), packet.payload())) {
    complete_receive(failed_receive(WcStatus::kLocProtErr));
    failure_ = Event::Kind::kQpFatal;
    return;
  }
  c_.env.counters.rcvd_payload_bytes += packet.payload().size();
  const std::uint32_t source = packet.header<proto::Deth>().get<proto::Deth::SourceQp>();
  Completion completion = receive_of(packet, source, grh.size() + packet.payload().size());
  completion.flags |= kWcGrh;
  complete_receive(completion);
}

/// Gives the oldest receive back to the user.
void UdResponder::complete_receive(Completion completion) {
  completion.wr_id = rq_.front().wr_id;
  c_.complete(*c_.init.recv_cq, completion);
  rq_.pop();
}

}  // namespace uroce::nic
