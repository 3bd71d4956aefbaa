// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/model/qp_state.h"

#include <span>

#include "proto/base/check.h"

namespace uroce::nic {
namespace {

using enum QpState;

// clang-format off
constexpr std::array kRcTransitions{
    Transition{kReset, kInit, kAttrPkeyIndex | kAttrPort | kAttrAccess,
                              0},
    Transition{kInit,  kInit, 0,
                              kAttrPkeyIndex | kAttrPort | kAttrAccess},
    Transition{kInit,  kRtr,  kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic |
                              kAttrMinRnrTimer,
                              kAttrAltPath | kAttrAccess | kAttrPkeyIndex},
    Transition{kRtr,   kRts,  kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxRdAtomic,
                              kAttrCurState | kAttrAltPath | kAttrAccess | kAttrMinRnrTimer | kAttrPathMig},
    Transition{kRts,   kRts,  0,
                              kAttrCurState | kAttrAccess | kAttrAltPath | kAttrPathMig | kAttrMinRnrTimer},
    Transition{kRts,   kSqd,  0,
                              kAttrEnSqdNotify},
    Transition{kSqd,   kRts,  0,
                              kAttrCurState | kAttrAltPath | kAttrAccess | kAttrMinRnrTimer | kAttrPathMig},
    Transition{kSqd,   kSqd,  0,
                              kAttrPort | kAttrAv | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxRdAtomic |
                              kAttrMaxDestRdAtomic | kAttrAltPath | kAttrAccess | kAttrPkeyIndex | kAttrMinRnrTimer |
                              kAttrPathMig},
};

constexpr std::array kUcTransitions{
    Transition{kReset, kInit, kAttrPkeyIndex | kAttrPort | kAttrAccess,
                              0},
    Transition{kInit,  kInit, 0,
                              kAttrPkeyIndex | kAttrPort | kAttrAccess},
    Transition{kInit,  kRtr,  kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn,
                              kAttrAltPath | kAttrAccess | kAttrPkeyIndex},
    Transition{kRtr,   kRts,  kAttrSqPsn,
                              kAttrCurState | kAttrAltPath | kAttrAccess | kAttrPathMig},
    Transition{kRts,   kRts,  0,
                              kAttrCurState | kAttrAccess | kAttrAltPath | kAttrPathMig},
    Transition{kRts,   kSqd,  0,
                              kAttrEnSqdNotify},
    Transition{kSqd,   kRts,  0,
                              kAttrCurState | kAttrAltPath | kAttrAccess | kAttrPathMig},
    Transition{kSqd,   kSqd,  0,
                              kAttrAv | kAttrAltPath | kAttrAccess | kAttrPkeyIndex | kAttrPathMig},
    Transition{kSqe,   kRts,  0,
                              kAttrCurState | kAttrAccess},
};

constexpr std::array kUdTransitions{
    Transition{kReset, kInit, kAttrPkeyIndex | kAttrPort | kAttrQkey,
                              0},
    Transition{kInit,  kInit, 0,
                              kAttrPkeyIndex | kAttrPort | kAttrQkey},
    Transition{kInit,  kRtr,  0,
                              kAttrPkeyIndex | kAttrQkey},
    Transition{kRtr,   kRts,  kAttrSqPsn,
                              kAttrCurState | kAttrQkey},
    Transition{kRts,   kRts,  0,
                              kAttrCurState | kAttrQkey},
    Transition{kRts,   kSqd,  0,
                              kAttrEnSqdNotify},
    Transition{kSqd,   kRts,  0,
                              kAttrCurState | kAttrQkey},
    Transition{kSqd,   kSqd,  0,
                              kAttrPkeyIndex | kAttrQkey},
    Transition{kSqe,   kRts,  0,
                              kAttrCurState | kAttrQkey},
};

//                                    post_send post_recv respond request complete flush_send flush_recv
constexpr StateRights kRights[] = {
    /* kReset */ {false,    false,    false,  false,  false,   false,     false},
    /* kInit  */ {false,    true,     false,  false,  false,   false,     false},
    /* kRtr   */ {false,    true,     true,   false,  false,   false,     false},
    /* kRts   */ {true,     true,     true,   true,   true,    false,     false},
    /* kSqd   */ {true,     true,     true,   false,  true,    false,     false},
    /* kSqe   */ {true,     true,     true,   false,  false,   true,      false},  // Not RC.
    /* kErr   */ {true,     true,     false,  false,  false,   true,      true},
};
// clang-format on

constexpr bool well_formed(std::span<const Transition> table) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].required & table[i].optional) return false;
    for (std::size_t j = i + 1; j < table.size(); ++j) {
      if (table[i].from == table[j].from && table[i].to == table[j].to) return false;
    }
  }
  return true;
}
static_assert(well_formed(kRcTransitions) && well_formed(kUcTransitions) && well_formed(kUdTransitions),
              "one row per transition, and an attribute is required or optional, not both");

std::span<const Transition> transitions(QpType type) {
  switch (type) {
    case QpType::kRc:
      return kRcTransitions;
    case QpType::kUc:
      return kUcTransitions;
    case QpType::kUd:
      return kUdTransitions;
  }
  UROCE_ASSERT(false);
}

}  // namespace

TransitionVerdict check_transition(QpType type, QpState from, QpState to, std::uint32_t given) {
  using enum TransitionVerdict::Code;
  std::uint32_t required = 0;
  std::uint32_t optional = 0;
  bool legal = to == kReset || to == kErr;  // From any state; nothing but the state may be given.
  for (const Transition& t : transitions(type)) {
    if (t.from != from || t.to != to) continue;
    legal = true;
    required = t.required;
    optional = t.optional;
  }
  if (!legal) return {kIllegalTransition, 0};
  if (const std::uint32_t missing = required & ~given) return {kMissingAttr, missing};
  if (const std::uint32_t extra = given & ~(required | optional | kAttrState)) return {kUnexpectedAttr, extra};
  return {kOk, 0};
}

const StateRights& rights(QpState state) {
  const auto index = static_cast<std::size_t>(state);
  UROCE_ASSERT(index < std::size(kRights));
  return kRights[index];
}

}  // namespace uroce::nic
