// SPDX-License-Identifier: Apache-2.0
// One end of a connect, as its program and the oracle see it: what has been asked for, what has been told, and what may
// be told next.
#pragma once

#include <string>

#include "tests/judged/sim/cm/plan.h"
#include "verbs/cm/cm.h"
#include "verbs/nic/device/nic.h"

namespace uroce::simulator {

class CmProcess;
struct CmAttempt;

struct CmSide {
  enum class Step : std::uint8_t {
    kAsked,      ///< Client: connect() was called.
    kAnswered,   ///< Client: REP has come.
    kRequested,  ///< Server: REQ has come.
    kAccepted,   ///< Server: accept() was called; UD: that is all.
    kUp,         ///< Established.
    kLeaving,    ///< Was up, and disconnect() was called.
    kOver,       ///< Has been told of its end, or has refused.
    kDestroyed,
  };

  CmSide(CmProcess& its_process, CmAttempt& its_attempt, bool is_passive)
      : process(its_process), attempt(its_attempt), passive(is_passive) {}

  CmProcess& process;
  CmAttempt& attempt;
  const bool passive;
  cm::Id id = 0;
  std::uint32_t qpn = 0;
  nic::Qp* qp = nullptr;          ///< RC only.
  std::size_t slot = 0;           ///< In the process's memory.
  std::size_t request = 0;        ///< Server: which request of the attempt it is.
  CmSide* answered_by = nullptr;  ///< Client: whose reply it has.
  std::uint64_t unanswered = 0;   ///< Client of UD: so often it asked again while the server's program was thinking.
  Step step{};
  bool was_up = false;
  bool exited_timewait = false;
  bool fetched = false;                   ///< Server: its place in the backlog is free again.
  Instant ended{};                        ///< When it came to be over.
  std::optional<Instant> disconnected{};  ///< When it was told.
  bool broken = false;                    ///< Its QP has failed.
  std::uint64_t faults_before_up = 0;     ///< As the next one, when it was established.
  std::uint64_t faults_before = 0;        ///< Between the two processes, when what it waits for now began.

  bool is_over() const { return step == Step::kOver || step == Step::kDestroyed; }
  std::string name() const;
};

/// What a side says of itself in its messages; of a client `request` is 0.
struct CmWords {
  std::size_t attempt = 0, request = 0;
};
/// Puts it into private data, with a pattern behind it.
cm::PrivateData write_private_data(const CmWords& words, bool passive);
/// A violation when it isn't what the other side has written, padded with zeros to `field` bytes.
CmWords read_private_data(const cm::PrivateData& in, bool from_passive, std::size_t field);

/// A connect and everybody who has to do with it.
struct CmAttempt {
  std::size_t number = 0;
  const CmAttemptPlan& plan;
  CmSide* client = nullptr;      ///< In the process that began it.
  std::vector<CmSide*> servers;  ///< One for each request that came of it.
  bool told_to_wait = false;     ///< An MRA was sent: everything takes longer.
};

}  // namespace uroce::simulator
