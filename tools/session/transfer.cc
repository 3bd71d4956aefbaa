// SPDX-License-Identifier: Apache-2.0
#include "tools/session/transfer.h"

#include <fmt/core.h>
#include <poll.h>
#include <sched.h>

#include <array>

#include "tools/control/interrupt.h"
#include "tools/rdma/steps.h"

namespace uroce::tools {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kBatch = 32;
constexpr std::uint32_t kIdlePollsBeforeYield = 32;
/// How often a busy loop looks at the connection to the peer: rarely, as it is a system call; more often when the peer
/// waits for our acknowledgements there.
constexpr auto kControlPeriod = 1ms;
constexpr auto kControlPeriodAcknowledged = 50us;
/// Messages that the peer knows to be delivered have at most to be reaped.
constexpr auto kStragglers = 5s;

}  // namespace

Transfer::Transfer(const SessionOptions& options, Control& control, RdmaResources& resources, const PeerMetadata& peer,
                   Outcome& outcome, Initiator* initiator, Target* target)
    : options_(options),
      control_(control),
      resources_(resources),
      peer_(peer),
      outcome_(outcome),
      initiator_(initiator),
      target_(target),
      acknowledged_(needs_acknowledgement(*outcome.workload)),
      events_(resources.channel != nullptr),
      progress_line_(options.progress_line, initiator != nullptr ? initiator->total() : 0),
      batch_(kBatch) {}

void Transfer::run() {
  now_ = last_control_ = last_progress_ = steady_clock::now();
  try {
    if (initiator_ != nullptr) initiator_->start();
    while (!finished()) {
      throw_if_interrupted();
      const bool busy = drain_completions() > 0;
      if (busy) {
        idle_polls_ = 0;
      } else {
        rest();
      }
      look_at_control(busy);
      report_progress();
    }
  } catch (const Failure&) {
    save_stats();
    throw;
  }
  save_stats();
}

bool Transfer::finished() {
  if (initiator_ != nullptr && !initiator_->done()) return false;
  if (initiator_ != nullptr && !told_finished_) {
    report_progress();
    control_.send(MessageType::kFinished);
    told_finished_ = true;
  }
  if (target_ == nullptr) return true;
  if (!peer_finished_) return false;
  return target_->all_received() || steady_clock::now() - last_progress_ > kStragglers;
}

std::size_t Transfer::drain_completions() {
  const std::size_t count = poll_completion(resources_, batch_);
  if (count == 0) return 0;
  now_ = last_progress_ = steady_clock::now();
  for (std::size_t i = 0; i < count; ++i) on_completion(batch_[i], now_);
  return count;
}

void Transfer::on_completion(const Completion& completion, TimePoint now) {
  if (completion.status != IBV_WC_SUCCESS) fail_on(completion);
  if (completion.id.receive) {
    target_->on_receive(completion, now);
  } else {
    initiator_->on_completion(completion, now);
  }
}

/// Nothing to reap: sleep if that was asked for, else let others run now and then.
void Transfer::rest() {
  if (events_) {
    sleep_until_event();
    return;
  }
  if (++idle_polls_ % kIdlePollsBeforeYield == 0) {
    sched_yield();
    now_ = steady_clock::now();
    check_stall();
  }
}

void Transfer::sleep_until_event() {
  request_completion_event(resources_);
  if (drain_completions() > 0) return;  // came in before the request; the event will come for the next one
  std::array<pollfd, 3> fds = {pollfd{resources_.channel->fd, POLLIN, 0}, pollfd{control_.socket().fd(), POLLIN, 0},
                               pollfd{interrupt_fd(), POLLIN, 0}};
  control_.socket().calls().poll(fds.data(), fds.size(), 500);
  if ((fds[0].revents & POLLIN) != 0) consume_completion_event(resources_);
  now_ = steady_clock::now();
  last_control_ = {};
  check_stall();
}

void Transfer::look_at_control(bool busy) {
  if (acknowledged_ && !busy) now_ = steady_clock::now();
  if (now_ - last_control_ < (acknowledged_ ? steady_clock::duration(kControlPeriodAcknowledged) : kControlPeriod))
    return;
  last_control_ = now_;
  while (const auto message = control_.poll()) on_message(*message);
  if (control_.closed()) on_peer_gone();
}

void Transfer::on_message(const Message& message) {
  std::optional<Progress> progress;
  switch (message.type) {
    case MessageType::kCompleted:
      if (target_ != nullptr) progress = decode_progress(message.payload);
      if (progress) progress = target_->on_peer_progress(*progress);
      if (!progress) throw Failure(kExitFailed, control_.peer_role() + " reports impossible progress");
      control_.send(MessageType::kVerified, encode(*progress));
      return;
    case MessageType::kVerified:
      progress = decode_progress(message.payload);
      if (initiator_ != nullptr && progress) initiator_->on_acknowledged(*progress);
      last_progress_ = steady_clock::now();
      return;
    case MessageType::kFinished:
      peer_finished_ = true;
      last_progress_ = steady_clock::now();
      return;
    case MessageType::kVerdict:  // the peer is through; we have yet to reap what it knows to have arrived
      outcome_.peer_verdict = decode_verdict(message.payload);
      if (peer_finished_ && outcome_.peer_verdict) return;
      [[fallthrough]];
    default:
      throw Failure(kExitFailed, control_.peer_role() + " sent a message that is not part of a transfer");
  }
}

void Transfer::report_progress() {
  if (initiator_ == nullptr) return;
  while (const auto progress = initiator_->next_progress()) {
    control_.send(MessageType::kCompleted, encode(*progress));
  }
  progress_line_.update(initiator_->stats().operations, now_);
}

void Transfer::check_stall() {
  if (options_.stall_limit.count() == 0 || initiator_ == nullptr || initiator_->done()) return;
  if (now_ - last_progress_ < options_.stall_limit) return;
  throw Failure(kExitFailed,
                fmt::format("no operation has completed for {} s, {} are outstanding (rnr-retry 7 and timeout 0 "
                            "wait for ever; --stall-limit ends it)",
                            options_.stall_limit.count(), initiator_->outstanding()));
}

void Transfer::save_stats() {
  if (initiator_ != nullptr) outcome_.initiated = initiator_->stats();
  if (target_ != nullptr) outcome_.received = target_->stats();
  outcome_.verification = {};
  if (initiator_ != nullptr) outcome_.verification.add(initiator_->verification());
  if (target_ != nullptr) outcome_.verification.add(target_->verification());
}

void Transfer::exchange_verdicts() {
  if (target_ != nullptr) target_->verify_end();
  save_stats();
  const Verification& own = outcome_.verification;
  control_.send(MessageType::kVerdict,
                encode(Verdict{own.checked_messages, own.checked_bytes, own.wrong_messages, own.first_error}));
  if (!outcome_.peer_verdict) outcome_.peer_verdict = decode_verdict(control_.expect(MessageType::kVerdict));
  if (!outcome_.peer_verdict) throw Failure(kExitFailed, control_.peer_role() + " sent a verdict that we can't read");
  trace_step(Step::kVerdicts);
  if (!own.ok()) {
    throw Failure(kExitFailed, fmt::format("verification failed for {} of {} messages; first: {}", own.wrong_messages,
                                           own.checked_messages, own.first_error));
  }
  if (outcome_.peer_verdict->wrong_messages > 0) {
    throw Failure(kExitFailed, fmt::format("{} found {} wrong messages; first: {}", control_.peer_role(),
                                           outcome_.peer_verdict->wrong_messages, outcome_.peer_verdict->first_error));
  }
}

}  // namespace uroce::tools
