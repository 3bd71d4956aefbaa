// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/srq_model.h"

#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

SharedQueue::SharedQueue(Stage& stage, Host& host, const SrqPlan& plan, std::uint64_t seed, std::string name)
    : stage_(stage),
      host_(host),
      plan_(plan),
      random_(seed),
      name_(std::move(name)),
      // Twice what they need: then one more always fits, wherever those that are kept lie.
      area_(host.reserve((plan.length + 96) * 2 * plan.depth)) {}

void SharedQueue::build() {
  mr_ = host_.register_memory(area_.whole(), nic::kLocalWrite);
  nic::SrqInit init;
  init.pd = host_.pd;
  init.max_wr = plan_.max_wr;
  init.max_sge = kSgesMax;
  const auto srq = host_.nic.create_srq(init);
  if (!srq) incorrect("{}: creating it fails with errno {}", name_, srq.error());
  srq_ = *srq;
  if (plan_.starts_empty) {
    withheld_ = plan_.depth;
    stage_.world.after(plan_.repost_delay, [this] {
      withheld_ = 0;
      post_missing();
    });
  }
  work();
}

void SharedQueue::destroy() {
  if (!waiting_.empty() && srq_->size() == 0) incorrect("{}: empty, {} receives were left", name_, waiting_.size());
  if (const nic::Errno error = host_.nic.destroy_srq(srq_)) {
    incorrect("{}: destroying it without QPs fails with errno {}", name_, error);
  }
  srq_ = nullptr;
}

void SharedQueue::post_missing() {
  if (srq_ == nullptr) return;
  const std::uint32_t wanted = stage_.faults_over ? plan_.depth : plan_.depth - std::min(plan_.depth, withheld_);
  while (waiting_.size() + taken_ < wanted && post()) {
  }
}

void SharedQueue::work() {
  post_missing();
  if (plan_.limit == 0 || limit_ != 0 || limits_due_ != 0) return;
  // Mostly below what is posted; one that is not is due with the next receive that is taken.
  limit_ = static_cast<std::uint32_t>(1 + random_.below(plan_.limit));
  if (srq_->arm(limit_) != 0) incorrect("{}: arming limit {} fails", name_, limit_);
}

bool SharedQueue::post() {
  Receive receive;
  std::uint32_t length = plan_.length - static_cast<std::uint32_t>(random_.below(8));
  if (random_.chance(plan_.short_receive)) length = static_cast<std::uint32_t>(random_.below(plan_.length));
  if (!take_pieces(random_, {plan_.sges_max, 0.1}, area_, length, 1, receive.local)) return false;
  receive.id = kFirstReceiveId + stage_.next_id++;
  std::array<nic::Sge, kSgesMax> sges;
  const nic::RecvWr wr{receive.id, sges_of(receive.local, host_.va(0), mr_->key, sges)};
  if (const nic::Errno error = srq_->post(wr)) {
    incorrect("{}: posting receive WR {} fails with errno {}", name_, receive.id, error);
  }
  waiting_.push_back(receive);
  return true;
}

Receive SharedQueue::take() {
  const Receive receive = waiting_.front();
  waiting_.pop_front();
  ++taken_;
  if (waiting_.empty()) stage_.tally.add("SRQ: ran empty");
  if (waiting_.size() < limit_) {
    limit_ = 0;
    ++limits_due_;
  }
  return receive;
}

void SharedQueue::check() {
  QpOwner* const candidate = candidate_;
  candidate_ = nullptr;
  if (candidate != nullptr && srq_->size() + 1 == waiting_.size()) candidate->on_receive_taken(take());
  if (srq_->size() != waiting_.size()) {
    incorrect("{}: {} receives are left in the queue, should be {}", name_, srq_->size(), waiting_.size());
  }
}

void SharedQueue::on_limit_reached() {
  if (limits_due_ == 0)
    incorrect("{}: SRQ_LIMIT_REACHED, but {} receives are left, limit {}", name_, waiting_.size(), limit_);
  --limits_due_;
  stage_.tally.add("event: SRQ_LIMIT_REACHED");
}

void SharedQueue::events_polled() const {
  if (limits_due_ != 0) incorrect("{}: no SRQ_LIMIT_REACHED, {} receives are left", name_, waiting_.size());
}

void SharedQueue::given_back(const Receive& receive) {
  --taken_;
  waiting_.push_front(receive);
  stage_.tally.add("SRQ: given back");
}

void SharedQueue::ended(const Receive& receive) {
  if (receive.local.slot.length != 0) area_.give_back(receive.local.slot);
  --taken_;
  if (plan_.repost_delay == Duration{} || stage_.faults_over) {
    // A program that polls posts again anyway; but one that takes a connection down polls and stops.
    stage_.world.after({}, [this] { post_missing(); });
    return;
  }
  ++withheld_;
  stage_.world.after(plan_.repost_delay, [this] {
    withheld_ -= std::min(withheld_, 1u);
    post_missing();
  });
}

}  // namespace uroce::simulator
