// SPDX-License-Identifier: Apache-2.0
// What the program of a process is told: whether it may be told so, and what it does then.
#include <algorithm>
#include <cerrno>

#include "tests/judged/sim/cm/cm_traffic.h"
#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using cm::RejectReason;
using cm::Transport;
using Kind = cm::Event::Kind;
using Step = CmSide::Step;

namespace {
/// How long a question that comes again gets its old answer, rather than counts as a new one.
constexpr Duration kSidrMemory = std::chrono::seconds{19};
}  // namespace

void CmProcess::look() {
  if (!alive_) return;
  while (const auto event = cm_.poll_event()) {
    about([&] { return name(); }, [&] { on_event(*event); });
    kick();
  }
  std::array<nic::Completion, 16> batch;
  while (const std::size_t taken = cq_->poll(batch)) {
    for (std::size_t i = 0; i < taken; ++i) on_completion(batch[i]);
  }
  while (nic_.poll_event()) {
  }
}

void CmProcess::on_event(const cm::Event& event) {
  if (event.kind == Kind::kRequest) return on_request(event);
  CmSide* const side = find(event.id);
  if (side == nullptr) incorrect("event {} for 0x{:08x}, which is gone", static_cast<int>(event.kind), event.id);
  about([&] { return side->name(); },
        [&] {
          switch (event.kind) {
            case Kind::kResponse:
              return on_response(*side, event);
            case Kind::kEstablished:
              return on_established(*side, event);
            case Kind::kUnreachable:
            case Kind::kRejected:
              return on_end(*side, event);
            case Kind::kDisconnected:
              return on_disconnected(*side, event);
            case Kind::kTimewaitExit:
              if (!side->disconnected || side->exited_timewait) incorrect("TIMEWAIT_EXIT that is not due");
              if (now() - *side->disconnected < traffic_.plan().scaled(std::chrono::milliseconds{230})) {
                incorrect("TIMEWAIT_EXIT too early");
              }
              side->exited_timewait = true;
              stage_.tally.add("CM: TIMEWAIT_EXIT");
              return;
            case Kind::kRequest:
              return;
          }
        });
}

void CmProcess::on_request(const cm::Event& event) {
  const bool is_datagram = event.private_data.size == cm::kSidrReqPrivateData;
  CmAttempt& attempt = traffic_.attempt(
      read_private_data(event.private_data, false, is_datagram ? cm::kSidrReqPrivateData : cm::kReqPrivateData)
          .attempt);
  const CmAttemptPlan& plan = attempt.plan;
  if (is_datagram != (plan.transport == Transport::kUd)) incorrect("attempt {}: another transport", attempt.number);
  if (attempt.client == nullptr || plan.server != number_ || plan.to_nobody) {
    incorrect("attempt {}: a request that nobody has sent here", attempt.number);
  }
  if (!listening_) incorrect("attempt {}: a request, but nobody listens", attempt.number);
  // A request is a new one when its forerunner has come to an end: that was refused, and the refusal may be lost.
  for (const CmSide* other : attempt.servers) {
    if (&other->process != this) continue;
    const bool remembered = is_datagram && now() - other->ended < traffic_.plan().scaled(kSidrMemory);
    if (remembered || !other->is_over()) incorrect("attempt {}: a second request of one connect", attempt.number);
  }
  if (!is_datagram) {
    const cm::ConnectionParams& p = event.params;
    if (p.qpn != attempt.client->qpn || p.responder_resources != 4 || p.initiator_depth != 5 || p.retry_count != 6 ||
        p.rnr_retry_count != 5) {
      incorrect("attempt {}: a request with other parameters", attempt.number);
    }
  }
  CmSide& side = add_side(attempt, true);
  side.request = attempt.servers.size();
  attempt.servers.push_back(&side);
  side.id = event.id;
  if (!by_id_.emplace(event.id, &side).second) incorrect("0x{:08x} is in use", event.id);
  side.step = Step::kRequested;
  stage_.tally.add("CM: requests");
  later(side, plan.answer_after, &CmProcess::answer);
}

/// The server's side that has sent this.
CmSide* CmProcess::who_answers(const CmSide& side, const cm::Event& event, std::size_t field) const {
  const CmWords words = read_private_data(event.private_data, true, field);
  const auto& servers = side.attempt.servers;
  if (words.attempt != side.attempt.number || words.request >= servers.size())
    incorrect("a reply that nobody has sent");
  return servers[words.request];
}

void CmProcess::on_response(CmSide& side, const cm::Event& event) {
  if (side.passive || side.step != Step::kAsked) incorrect("a reply that is not due");
  side.answered_by = who_answers(side, event, cm::kRepPrivateData);
  if (side.answered_by->qpn != event.params.qpn) incorrect("a reply with another QPN");
  if (event.params.responder_resources != 2 || event.params.initiator_depth != 3) {
    incorrect("a reply with other parameters");
  }
  side.step = Step::kAnswered;
  stage_.tally.add("CM: replies");
  later(side, side.attempt.plan.reply_after, &CmProcess::reply);
}

void CmProcess::on_established(CmSide& side, const cm::Event& event) {
  const bool is_datagram = side.attempt.plan.transport == Transport::kUd;
  if (side.step != (is_datagram ? Step::kAsked : Step::kAccepted) || side.passive == is_datagram) {
    incorrect("ESTABLISHED that is not due");
  }
  if (!is_datagram) return up(side);
  const CmSide& server = *who_answers(side, event, cm::kSidrRepPrivateData);
  if (event.datagram.qpn != server.qpn || event.datagram.qkey != (server.qpn ^ 0x55AA)) {
    incorrect("a QPN or Q_Key that nobody has given");
  }
  stage_.tally.add("CM: datagram services found");
  over(side);
}

/// REJECTED or UNREACHABLE.
void CmProcess::on_end(CmSide& side, const cm::Event& event) {
  if (side.is_over()) incorrect("event {} after the end", static_cast<int>(event.kind));
  if (side.disconnected) incorrect("event {} after DISCONNECTED", static_cast<int>(event.kind));
  if (event.kind == Kind::kUnreachable) {
    if (side.step != (side.passive ? Step::kAccepted : Step::kAsked)) incorrect("UNREACHABLE that is not due");
    if (event.status == -ETIMEDOUT && !traffic_.peer_is_silent(side)) incorrect("UNREACHABLE without a cause");
    stage_.tally.add("CM: UNREACHABLE");
  } else {
    const bool known = event.status == static_cast<int>(RejectReason::kConsumer) ||
                       event.status == static_cast<int>(RejectReason::kTimeout) ||
                       event.status == static_cast<int>(RejectReason::kInvalidServiceId) ||
                       event.status == static_cast<int>(RejectReason::kStaleConnection);
    if (!known) incorrect("REJECTED for reason {}", event.status);
    stage_.tally.add(fmt::format("CM: REJECTED {}", event.status));
  }
  over(side);
}

void CmProcess::on_disconnected(CmSide& side, const cm::Event& event) {
  const bool connected =
      side.step == Step::kUp || side.step == Step::kLeaving || (side.passive && side.step == Step::kAccepted);
  if (!connected || side.disconnected) incorrect("DISCONNECTED that is not due");
  if (event.status == -ETIMEDOUT && !traffic_.peer_is_silent(side)) incorrect("DISCONNECTED -110 without a cause");
  stage_.tally.add(event.status == 0 ? "CM: DISCONNECTED" : "CM: DISCONNECTED, the peer is silent");
  side.disconnected = now();
  // The DREP is the program's.
  if (const cm::Errno error = cm_.disconnect(side.id, now())) incorrect("disconnecting fails with errno {}", error);
  over(side);
}

void CmProcess::on_completion(const nic::Completion& completion) {
  const auto at = std::find_if(sides_.begin(), sides_.end(),
                               [&](const auto& side) { return side->qp != nullptr && side->qpn == completion.qpn; });
  if (at == sides_.end()) return;  // Its QP is gone.
  CmSide& side = **at;
  about([&] { return side.name(); },
        [&] {
          const bool is_receive = completion.wr_id % 2 == 1;
          if (completion.status == nic::WcStatus::kWrFlushErr && (side.is_over() || side.broken)) return;
          if (!is_receive && completion.status == nic::WcStatus::kRetryExcErr && traffic_.peer_is_deaf(side)) {
            side.broken = true;
            return;
          }
          if (completion.status != nic::WcStatus::kSuccess) {
            incorrect("a {} completes with status {}", is_receive ? "receive" : "SEND",
                      static_cast<int>(completion.status));
          }
          if (!is_receive) return;
          const std::uint8_t* const words = memory_.data() + (2 * side.slot + 1) * 16;
          if (load_be<8>(words) != side.attempt.number || load_be<8>(words + 8) != (side.passive ? 0 : 1)) {
            incorrect("a message of attempt {}, side {}", load_be<8>(words), load_be<8>(words + 8));
          }
          stage_.tally.add("CM: messages over what was connected");
        });
}

}  // namespace uroce::simulator
