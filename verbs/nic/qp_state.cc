#include "verbs/nic/qp_state.h"

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

//                                    post_send post_recv respond request complete flush
constexpr StateRights kRights[] = {
    /* kReset */ {false,    false,    false,  false,  false,   false},
    /* kInit  */ {false,    true,     false,  false,  false,   false},
    /* kRtr   */ {false,    true,     true,   false,  false,   false},
    /* kRts   */ {true,     true,     true,   true,   true,    false},
    /* kSqd   */ {true,     true,     true,   false,  true,    false},
    /* kSqe   */ {true,     true,     true,   false,  false,   true},  // Never reached: RC has no SQE.
    /* kErr   */ {true,     true,     false,  false,  false,   true},
};
// clang-format on

constexpr bool well_formed() {
  for (std::size_t i = 0; i < kRcTransitions.size(); ++i) {
    if (kRcTransitions[i].required & kRcTransitions[i].optional) return false;
    for (std::size_t j = i + 1; j < kRcTransitions.size(); ++j) {
      if (kRcTransitions[i].from == kRcTransitions[j].from && kRcTransitions[i].to == kRcTransitions[j].to)
        return false;
    }
  }
  return true;
}
static_assert(well_formed(), "one row per transition, and an attribute is required or optional, not both");

}  // namespace

TransitionVerdict check_rc_transition(QpState from, QpState to, std::uint32_t given) {
  using enum TransitionVerdict::Code;
  std::uint32_t required = 0;
  std::uint32_t optional = 0;
  bool legal = to == kReset || to == kErr;  // From any state; nothing but the state may be given.
  for (const Transition& t : kRcTransitions) {
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
