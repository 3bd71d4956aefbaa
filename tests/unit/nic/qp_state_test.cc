// SPDX-License-Identifier: Apache-2.0
// The golden side is written independently of the table under test: every transition that exists, with the letter of
// each attribute bit in the order of ibv_qp_attr_mask: '!' required, 'o' optional, '.' refused.
#include "verbs/nic/model/qp_state.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace uroce::nic {
namespace {

using enum QpState;
using Code = TransitionVerdict::Code;

constexpr std::array kStates{kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr};
constexpr std::uint32_t kBits = 21;

// Bits:        CUR_STATE, EN_SQD, ACCESS, PKEY, PORT, QKEY, AV, MTU, TIMEOUT, RETRY, RNR_RETRY, RQ_PSN, MAX_RD, ALT,
// MIN_RNR,
//              SQ_PSN, MAX_DEST_RD, PATH_MIG, CAP, DEST_QPN
using Golden = std::map<std::pair<QpState, QpState>, std::string>;
const std::map<QpType, Golden> kGolden{
    {QpType::kRc,
     {
         {{kReset, kInit}, "..!!!..............."},
         {{kInit, kInit}, "..ooo..............."},
         {{kInit, kRtr}, "..oo..!!...!.o!.!..!"},
         {{kRtr, kRts}, "o.o.....!!!.!oo!.o.."},
         {{kRts, kRts}, "o.o..........oo..o.."},
         {{kRts, kSqd}, ".o.................."},
         {{kSqd, kRts}, "o.o..........oo..o.."},
         {{kSqd, kSqd}, "..ooo.o.ooo.ooo.oo.."},
     }},
    {QpType::kUc,
     {
         {{kReset, kInit}, "..!!!..............."},
         {{kInit, kInit}, "..ooo..............."},
         {{kInit, kRtr}, "..oo..!!...!.o.....!"},
         {{kRtr, kRts}, "o.o..........o.!.o.."},
         {{kRts, kRts}, "o.o..........o...o.."},
         {{kRts, kSqd}, ".o.................."},
         {{kSqd, kRts}, "o.o..........o...o.."},
         {{kSqd, kSqd}, "..oo..o......o...o.."},
         {{kSqe, kRts}, "o.o................."},
     }},
    {QpType::kUd,
     {
         {{kReset, kInit}, "...!!!.............."},
         {{kInit, kInit}, "...ooo.............."},
         {{kInit, kRtr}, "...o.o.............."},
         {{kRtr, kRts}, "o....o.........!...."},
         {{kRts, kRts}, "o....o.............."},
         {{kRts, kSqd}, ".o.................."},
         {{kSqd, kRts}, "o....o.............."},
         {{kSqd, kSqd}, "...o.o.............."},
         {{kSqe, kRts}, "o....o.............."},
     }},
};

std::string letters(QpType type, QpState from, QpState to) {
  const Golden& golden = kGolden.at(type);
  if (auto it = golden.find({from, to}); it != golden.end()) return it->second;
  return to == kReset || to == kErr ? std::string(kBits - 1, '.') : "";
}

std::uint32_t bits_with(const std::string& row, char letter) {
  std::uint32_t bits = 0;
  for (std::uint32_t i = 0; i < row.size(); ++i) {
    if (row[i] == letter) bits |= 1u << (i + 1);
  }
  return bits;
}

class EveryType : public testing::TestWithParam<QpType> {};
INSTANTIATE_TEST_SUITE_P(QpState, EveryType, testing::Values(QpType::kRc, QpType::kUc, QpType::kUd),
                         [](const auto& test) {
                           return test.param == QpType::kRc ? "Rc" : test.param == QpType::kUc ? "Uc" : "Ud";
                         });

TEST_P(EveryType, TransitionTimesAttribute) {
  const QpType type = GetParam();
  for (QpState from : kStates) {
    for (QpState to : kStates) {
      SCOPED_TRACE(std::to_string(static_cast<int>(from)) + " -> " + std::to_string(static_cast<int>(to)));
      const std::string row = letters(type, from, to);
      if (row.empty()) {
        for (std::uint32_t bit = 0; bit < kBits; ++bit) {
          EXPECT_EQ(check_transition(type, from, to, kAttrState | 1u << bit).code, Code::kIllegalTransition);
        }
        continue;
      }
      ASSERT_EQ(row.size(), kBits - 1);
      const std::uint32_t required = bits_with(row, '!');
      const std::uint32_t optional = bits_with(row, 'o');
      EXPECT_EQ(check_transition(type, from, to, kAttrState | required).code, Code::kOk);
      EXPECT_EQ(check_transition(type, from, to, required).code, Code::kOk) << "the state bit is implied";
      EXPECT_EQ(check_transition(type, from, to, kAttrState | required | optional).code, Code::kOk);
      for (std::uint32_t bit = 1; bit < kBits; ++bit) {
        const std::uint32_t one = 1u << bit;
        const TransitionVerdict with = check_transition(type, from, to, kAttrState | required | one);
        const TransitionVerdict without = check_transition(type, from, to, kAttrState | (required & ~one));
        const bool allowed = ((required | optional) & one) != 0;
        EXPECT_EQ(with.code, allowed ? Code::kOk : Code::kUnexpectedAttr) << "bit " << bit;
        EXPECT_EQ(with.offending, allowed ? 0 : one) << "bit " << bit;
        const bool needed = (required & one) != 0;
        EXPECT_EQ(without.code, needed ? Code::kMissingAttr : Code::kOk) << "bit " << bit;
        EXPECT_EQ(without.offending, needed ? one : 0) << "bit " << bit;
      }
    }
  }
}

TEST(QpState, BitsBeyondThoseOfRcAreUnexpected) {
  const TransitionVerdict verdict =
      check_transition(QpType::kRc, kRts, kErr, kAttrState | 1u << 25);  // IBV_QP_RATE_LIMIT
  EXPECT_EQ(verdict.code, Code::kUnexpectedAttr);
  EXPECT_EQ(verdict.offending, 1u << 25);
}

TEST(QpState, StatesThatDoNotExistAreIllegal) {
  EXPECT_EQ(check_transition(QpType::kRc, kRts, static_cast<QpState>(7), kAttrState).code, Code::kIllegalTransition);
}

TEST(QpState, ResetMayGoToErr) { EXPECT_EQ(check_transition(QpType::kRc, kReset, kErr, kAttrState).code, Code::kOk); }

TEST(QpState, RightsOfEachState) {
  struct Row {
    QpState state;
    bool post_send, post_recv, respond, request, complete, flush_send, flush_recv;
  };
  for (const Row& row : {Row{kReset, false, false, false, false, false, false, false},  //
                         Row{kInit, false, true, false, false, false, false, false},    //
                         Row{kRtr, false, true, true, false, false, false, false},      //
                         Row{kRts, true, true, true, true, true, false, false},         //
                         Row{kSqd, true, true, true, false, true, false, false},        //
                         Row{kSqe, true, true, true, false, false, true, false},        //
                         Row{kErr, true, true, false, false, false, true, true}}) {
    SCOPED_TRACE(static_cast<int>(row.state));
    const StateRights& r = rights(row.state);
    EXPECT_EQ(r.post_send, row.post_send);
    EXPECT_EQ(r.post_recv, row.post_recv);
    EXPECT_EQ(r.respond, row.respond);
    EXPECT_EQ(r.request, row.request);
    EXPECT_EQ(r.complete, row.complete);
    EXPECT_EQ(r.flush_send, row.flush_send);
    EXPECT_EQ(r.flush_recv, row.flush_recv);
  }
}

}  // namespace
}  // namespace uroce::nic
