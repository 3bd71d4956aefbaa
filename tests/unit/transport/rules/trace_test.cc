// SPDX-License-Identifier: Apache-2.0
// What a trace tells of a QP, and that counters are the sums of its events.
#include <optional>

#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

/// Remembers each event as a line.
class Diary final : public nic::TraceSink {
 public:
  void on_event(const nic::TraceEvent& event) override { lines.push_back(to_string(event)); }
  /// The lines since the last call, without those of packets and states.
  std::vector<std::string> news() {
    std::vector<std::string> chosen;
    for (const std::string& line : lines) {
      if (!line.starts_with("packet_") && !line.starts_with("state")) chosen.push_back(line);
    }
    lines.clear();
    return chosen;
  }
  std::vector<std::string> lines;
};

using Lines = std::vector<std::string>;

struct Traced {
  explicit Traced(Setup setup = {}) {
    setup.trace = &diary;
    setup.rq_psn = setup.sq_psn = 0;
    s.emplace(setup);
    qpn = " qpn=" + std::to_string(s->qp->qpn());
    diary.news();
  }
  Diary diary;
  std::optional<Script> s;
  std::string qpn;
};

TEST(Trace, TellsOfPacketsOfStates) {
  Diary diary;
  Script s({.rq_psn = 0, .trace = &diary});
  const std::string qpn = " qpn=" + std::to_string(s.qp->qpn());
  EXPECT_EQ(diary.lines, (Lines{"state" + qpn + " from=RESET to=INIT", "state" + qpn + " from=INIT to=RTR",
                                "state" + qpn + " from=RTR to=RTS"}));
  diary.lines.clear();
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0));
  EXPECT_EQ(diary.lines, (Lines{"packet_in bytes=40 tclass=0", "packet_out" + qpn + " bytes=20"}));
}

TEST(Trace, TellsWhyARequestIsRefused) {
  Traced t;
  t.s->recv(write_only(2, 8));
  t.s->expect(sequence_nak(0));
  t.s->recv(send_only(0).bytes(8));
  t.s->expect(rnr_nak(0, 12));
  t.s->recv(write_only(0, 8).rkey(0xDEAD));
  t.s->expect(nak(0, NakCode::kRemoteAccessError));
  t.s->expect_event(Event::Kind::kQpAccessErr);
  EXPECT_EQ(t.diary.news(),
            (Lines{"out_of_sequence" + t.qpn + " psn=2 expected=0", "refused" + t.qpn + " check=3 psn=0",
                   "rnr_nak" + t.qpn + " psn=0 timer=12", "rkey_refused" + t.qpn + " why=0 rkey=57005",
                   "refused" + t.qpn + " check=4 psn=0", "nak" + t.qpn + " code=remote access error psn=0"}));
  EXPECT_EQ(t.s->nic.counters().out_of_seq_request, 1u);
  EXPECT_EQ(t.s->nic.counters().send_rnr_err, 1u);
}

TEST(Trace, SaysNumbersThatMeanNothingAsTheyAre) {
  const auto said = [](nic::TraceKind kind, std::uint64_t a, std::uint64_t b) {
    return to_string(nic::TraceEvent{.kind = kind, .a = a, .b = b});
  };
  EXPECT_EQ(said(nic::TraceKind::kSendFailed, 12, 5), "send_failed status=RETRY_EXC_ERR psn=5");
  EXPECT_EQ(said(nic::TraceKind::kState, 7, 256), "state from=7 to=256");
  EXPECT_EQ(said(nic::TraceKind::kNakIn, 5, 5), "nak_in code=5 psn=5");
  EXPECT_EQ(said(nic::TraceKind::kSendFailed, 255, 5), "send_failed status=255 psn=5");
}

}  // namespace
}  // namespace uroce::test::rules
