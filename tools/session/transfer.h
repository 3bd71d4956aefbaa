// SPDX-License-Identifier: Apache-2.0
// The transfer itself: one loop that polls the completion queue, hands completions to whom they belong, keeps an eye on
// the TCP connection, and knows what to say when it ends badly.
#pragma once

#include <chrono>
#include <cstdint>

#include "tools/control/control.h"
#include "tools/rdma/rdma.h"
#include "tools/session/progress_line.h"
#include "tools/session/session.h"

namespace uroce::tools {

class Transfer {
 public:
  /// `initiator` and `target` are null on a side that is not one. Everything is borrowed.
  Transfer(const SessionOptions& options, Control& control, RdmaResources& resources, const PeerMetadata& peer,
           Outcome& outcome, Initiator* initiator, Target* target);

  /// Returns when all operations of both directions are complete and all messages have arrived. Throws Failure on the
  /// first failed completion, when the peer goes away, when nothing moves any more, or when interrupted.
  void run();
  /// Checks what can only be checked at the end and trades verdicts with the peer. Throws Failure unless both are good.
  void exchange_verdicts();

 private:
  bool finished();
  std::size_t drain_completions();
  void on_completion(const Completion& completion, TimePoint now);
  void rest();
  void sleep_until_event();
  void look_at_control(bool busy);
  void on_message(const Message& message);
  void report_progress();
  void check_stall();
  void save_stats();

  // transfer_failure.cc
  [[noreturn]] void fail_on(Completion completion);
  [[noreturn]] void on_peer_gone();
  void post_probes();
  bool await_error(Deadline deadline, std::uint64_t outstanding, Completion& error);
  double promised_seconds() const;
  std::string promise_text() const;

  const SessionOptions& options_;
  Control& control_;
  RdmaResources& resources_;
  const PeerMetadata& peer_;
  Outcome& outcome_;
  Initiator* const initiator_;
  Target* const target_;
  const bool acknowledged_;
  const bool events_;
  ProgressLine progress_line_;
  bool told_finished_ = false;
  bool peer_finished_ = false;
  std::uint32_t idle_polls_ = 0;
  TimePoint now_{};
  TimePoint last_control_{};
  TimePoint last_progress_{};
  std::vector<Completion> batch_;
};

/// "RETRY_EXC_ERR" and the like.
std::string status_name(ibv_wc_status status);

}  // namespace uroce::tools
