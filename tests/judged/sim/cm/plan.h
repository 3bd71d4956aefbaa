// SPDX-License-Identifier: Apache-2.0
// What a seed decides about connection management: which processes there are, what their programs do with each connect,
// who dies when, and what the network does to management packets beyond what it does to all.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "engine/sim/random.h"
#include "proto/base/clock.h"
#include "verbs/cm/values.h"

namespace uroce::simulator {

/// A program at an address of its own, and what happens to it.
struct CmProcessPlan {
  std::uint32_t backlog = 0;
  Duration unlistens_at{};    ///< From the start, as the next ones; 0: never.
  Duration dies_at{};         ///< 0: it lives.
  bool says_goodbye = false;  ///< Before it dies it sends what a process that exits does.
  Duration gone_for{};        ///< Until another process has its address; 0: for ever.
};

/// One connect, from the first call to the end of the connection.
struct CmAttemptPlan {
  cm::Transport transport = cm::Transport::kRc;
  std::uint32_t client = 0, server = 0;  ///< Processes.
  Duration at{};                         ///< From the start.
  bool to_nobody = false;                ///< Nobody listens there.

  enum class Answer : std::uint8_t { kAccept, kReject, kDestroy, kIgnore };
  Answer answer = Answer::kAccept;  ///< By the server's program ...
  Duration answer_after{};          ///< ... so long after the request.
  enum class Reply : std::uint8_t { kEstablish, kReject, kDestroy };
  Reply reply = Reply::kEstablish;  ///< By the client's program, to the answer.
  Duration reply_after{};
  Duration given_up_after{};  ///< The client destroys the id, however far it has come; 0: never.

  Duration lives{};                         ///< From established to disconnected.
  std::array<bool, 2> ends_it{true, true};  ///< The client does, the server does.
  bool by_destroy = false;                  ///< Without a word to its connection manager before.
  Duration lingers{};                       ///< From the end until the id is destroyed.
};

struct CmPlan {
  std::vector<CmProcessPlan> processes;  ///< None: no connection management in this seed.
  std::vector<CmAttemptPlan> attempts;
  std::uint32_t time_divisor =
      1000;  ///< Protocol times are shorter by this, so that several fit into the time of faults.
  // For management packets; each fate by itself.
  double loss = 0, duplicate = 0, late = 0, corrupt = 0;
  Duration lateness{};

  /// A time of the protocol, as it is in this run.
  Duration scaled(Duration real) const { return real / static_cast<Duration::rep>(time_divisor); }
};

/// `latency`: longest time from sending to arrival; `faults_end`: how long there are faults.
CmPlan draw_cm_plan(const engine::sim::Random& random, Duration latency, Duration faults_end);
std::string describe(const CmPlan& plan);

}  // namespace uroce::simulator
