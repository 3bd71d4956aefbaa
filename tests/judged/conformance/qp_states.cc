// SPDX-License-Identifier: Apache-2.0
// QP states: which transitions exist.
#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/lab.h"

namespace uroce::conformance {
namespace {

constexpr Rule kTransitions{"a QP moves along the arrows of the state diagram only",
                            "IBTA Vol 1, 10.3.1; ibv_modify_qp(3)"};
constexpr Rule kToReset{"RESET can be entered from every state", "IBTA Vol 1, 10.3.1"};
constexpr Rule kToError{"ERR can be entered from every state", "IBTA Vol 1, 10.3.1"};
constexpr Rule kDrained{"SQ_DRAINED is raised when the modify that led to SQD asked for it",
                        "IBTA Vol 1, 10.3.1 and 11.6.3; ibv_modify_qp(3): en_sqd_async_notify"};

constexpr Why kResetToErr =
    specification("the kernel's table of transitions lacks this one; nobody can rely on its refusal");
constexpr Why kUnasked = specification("the event was not asked for, so there is none; rxe always raises it");

/// The attributes that the transition to `to` needs, as a program would give them.
std::string modify(enum ibv_qp_state from, enum ibv_qp_state to) {
  Side side(0);
  side.bring(from);
  struct ibv_qp_attr attr {};
  int mask = IBV_QP_STATE;
  if (to == IBV_QPS_INIT) attr = init_attr(), mask = kInitMask;
  if (to == IBV_QPS_RTR) attr = rtr_attr(side.gid(), 99), mask = kRtrMask;
  if (to == IBV_QPS_RTS && from != IBV_QPS_RTS) attr = rts_attr(), mask = kRtsMask;
  attr.qp_state = to;
  const int error = side.modify(attr, mask);
  return say({word(error), side.state()});
}

Case transition(enum ibv_qp_state from, enum ibv_qp_state to, const Rule& rule, const char* ours, const char* rxe,
                const Why& why = kSame) {
  constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return {std::string("modify ") + kNames[from] + " -> " + kNames[to], rule, ours, rxe, why, [from, to] {
            return modify(from, to);
          }};
}

std::string sqd_and_back() {
  Side side(0);
  side.bring(IBV_QPS_SQD);
  const std::string sqd = side.state();
  quiesce();
  const std::string raised = events(side);
  const int error = set_state(side.qp.get(), IBV_QPS_RTS);
  return say({word(error), sqd + " -> " + side.state(), "async events in SQD: " + raised});
}

std::string sqd_with_notification() {
  Side side(0);
  side.bring(IBV_QPS_RTS);
  struct ibv_qp_attr attr {};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  const int error = side.modify(attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
  quiesce();
  return say({word(error), side.state(), "async: " + events(side)});
}

std::string out_of_error() {
  Side side(0);
  side.bring(IBV_QPS_ERR);
  const std::string to_init = word(side.modify(init_attr(), kInitMask));
  const std::string to_reset = word(set_state(side.qp.get(), IBV_QPS_RESET));
  const std::string again = word(side.modify(init_attr(), kInitMask));
  return say({to_init, to_reset, again, side.state()});
}

}  // namespace

Chapter qp_states() {
  constexpr auto kReset = IBV_QPS_RESET, kInit = IBV_QPS_INIT, kRtr = IBV_QPS_RTR, kRts = IBV_QPS_RTS,
                 kSqd = IBV_QPS_SQD, kErr = IBV_QPS_ERR;
  return {"qp_states",
          "QP state machine: transitions",
          {
              transition(kReset, kRtr, kTransitions, "EINVAL; RESET", "EINVAL; RESET"),
              transition(kReset, kRts, kTransitions, "EINVAL; RESET", "EINVAL; RESET"),
              transition(kReset, kSqd, kTransitions, "EINVAL; RESET", "EINVAL; RESET"),
              transition(kReset, kErr, kToError, "ok; ERR", "EINVAL; RESET", kResetToErr),
              transition(kReset, kReset, kToReset, "ok; RESET", "ok; RESET"),
              transition(kInit, kInit, kTransitions, "ok; INIT", "ok; INIT"),
              transition(kInit, kRts, kTransitions, "EINVAL; INIT", "EINVAL; INIT"),
              transition(kInit, kSqd, kTransitions, "EINVAL; INIT", "EINVAL; INIT"),
              transition(kInit, kReset, kToReset, "ok; RESET", "ok; RESET"),
              transition(kInit, kErr, kToError, "ok; ERR", "ok; ERR"),
              transition(kRtr, kInit, kTransitions, "EINVAL; RTR", "EINVAL; RTR"),
              transition(kRtr, kRtr, kTransitions, "EINVAL; RTR", "EINVAL; RTR"),
              transition(kRtr, kSqd, kTransitions, "EINVAL; RTR", "EINVAL; RTR"),
              transition(kRtr, kReset, kToReset, "ok; RESET", "ok; RESET"),
              transition(kRtr, kErr, kToError, "ok; ERR", "ok; ERR"),
              transition(kRts, kInit, kTransitions, "EINVAL; RTS", "EINVAL; RTS"),
              transition(kRts, kRtr, kTransitions, "EINVAL; RTS", "EINVAL; RTS"),
              transition(kRts, kRts, kTransitions, "ok; RTS", "ok; RTS"),
              transition(kRts, kSqd, kTransitions, "ok; SQD", "ok; SQD"),
              transition(kRts, kReset, kToReset, "ok; RESET", "ok; RESET"),
              transition(kRts, kErr, kToError, "ok; ERR", "ok; ERR"),
              {"SQD -> RTS", kDrained, "ok; SQD -> RTS; async events in SQD: none",
               "ok; SQD -> RTS; async events in SQD: SQ_DRAINED", kUnasked, sqd_and_back},
              {"RTS -> SQD with en_sqd_async_notify", kDrained, "ok; SQD; async: SQ_DRAINED",
               "ok; SQD; async: SQ_DRAINED", kSame, sqd_with_notification},
              {"ERR -> INIT; ERR -> RESET; RESET -> INIT", kTransitions, "EINVAL; ok; ok; INIT", "EINVAL; ok; ok; INIT",
               kSame, out_of_error},
          }};
}

}  // namespace uroce::conformance
