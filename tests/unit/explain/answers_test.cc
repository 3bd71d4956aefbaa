// SPDX-License-Identifier: Apache-2.0
// Answers that no right responder gives.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/explain/retold.h"
#include "tests/unit/explain/scripted.h"

namespace uroce::explain::test {
namespace {

using O = proto::Opcode;

Scripted ask(std::uint32_t psn) { return {.op = O::kRcWriteOnly, .psn = psn, .headers = reth(0)}; }
Scripted answer(std::uint32_t psn, const Octets& headers, int wait_us = 10) {
  return {.from_a = false, .op = O::kRcAcknowledge, .psn = psn, .headers = headers, .wait_us = wait_us};
}

Retold retell_script(const std::vector<Scripted>& packets) { return retell_bytes(scripted_pcap(packets)); }

const Numbers& requests_of(const Retold& retold) { return retold.story->connections().at(0)->to_right.numbers(); }

/// The MSN of the first ACK tells that nothing was sent before the capture.
TEST(Answers, WhatWasNeverSentIsAnsweredByAGhost) {
  const auto counts_with_msn = [](std::uint32_t msn) {
    return retell_script({ask(0x100), answer(0x100, aeth(msn)), ask(0x101), answer(0xFE, aeth(msn)),
                          answer(0x101, aeth(msn + 1)), answer(0x800105, aeth(msn + 1))})
        .counts();
  };
  EXPECT_EQ(counts_with_msn(1), "ghost:2");
  EXPECT_EQ(counts_with_msn(7), "answer_again:1 unseen_request:1") << "The capture begins in the middle.";
}

/// A responder refuses only what it has got, or what is missing in front of that.
TEST(Answers, ARefusalOfWhatWasNeverSentCompletesNothing) {
  constexpr std::uint32_t kRemoteAccessError = 2;
  for (const Octets& refusal : {nak(1), nak(1, kRemoteAccessError), rnr_nak(1)}) {
    const Retold retold = retell_script({ask(0x100), ask(0x101), ask(0x102), answer(0x103, refusal)});
    EXPECT_EQ(retold.counts(), "unseen_request:1");
    EXPECT_EQ(requests_of(retold).unanswered, 3u);
    EXPECT_EQ(retold.story->connections().at(0)->to_right.failure(), "");
  }
}

/// A wrong MSN does not make the next one wrong, nor those that are smaller. Two that agree are right.
TEST(Answers, OneWrongMsnIsOneBreach) {
  const auto retell_msns = [](const std::vector<std::uint32_t>& msns) {
    std::vector<Scripted> packets;
    std::uint32_t psn = 0x100;
    for (const std::uint32_t msn : msns) {
      packets.push_back(ask(psn));
      packets.push_back(answer(psn++, aeth(msn)));
    }
    return retell_script(packets);
  };
  const Retold once = retell_msns({1, 2, 9, 4, 5, 6});
  EXPECT_EQ(once.counts(), "msn:1");
  EXPECT_EQ(once.noted("msn_back"), 0u);
  EXPECT_EQ(retell_msns({1, 2, 9, 10, 11, 12}).counts(), "msn:1");
  EXPECT_EQ(retell_msns({1, 7, 3, 8}).counts(), "msn:2");
}

/// One NAK for a gap, until the packet comes.
TEST(Answers, ASecondNakForOneGap) {
  const std::vector<Scripted> gap{ask(0x100), answer(0x100, aeth(1)), ask(0x102), answer(0x101, nak(1)), ask(0x103)};
  const auto counts_with = [&](const std::vector<Scripted>& more) {
    std::vector<Scripted> packets = gap;
    packets.insert(packets.end(), more.begin(), more.end());
    return retell_script(packets).counts();
  };
  EXPECT_EQ(counts_with({answer(0x101, nak(1), 2'000)}), "gap:1 nak_again:1 nak_sequence:2");
  EXPECT_EQ(counts_with({answer(0x101, nak(1))}), "gap:1 nak_sequence:1 network_copy?:1");
  EXPECT_EQ(counts_with({ask(0x101), answer(0x101, rnr_nak(1)), answer(0x101, nak(1), 2'000)}),
            "gap:1 nak:1 nak_sequence:2 rnr_nak:1");
}

TEST(Answers, AnAtomicIsAtAMultipleOf8) {
  const auto counts_at = [](std::uint8_t address) {
    Octets headers(28);
    headers[7] = address;
    return retell_script({{.op = O::kRcFetchAdd, .psn = 1, .headers = headers}}).counts();
  };
  EXPECT_EQ(counts_at(8), "");
  EXPECT_EQ(counts_at(4), "atomic_address:1");
}

/// Unusual, and no breach: the capture may begin in the rest of a READ, with which Soft-RoCE goes on.
TEST(Answers, MiddleIsNoFirstAnswerToARead) {
  const Scripted read{.op = O::kRcReadRequest, .psn = 1, .headers = reth(2048)};
  const Scripted middle{.from_a = false, .op = O::kRcReadResponseMiddle, .psn = 1, .payload = 1024};
  const Retold first = retell_script({read, middle});
  EXPECT_EQ(first.counts(), "");
  EXPECT_EQ(first.noted("read_answer"), 1u);
}

/// A requester may ask again for a part of a READ; that is where the answer ends.
TEST(Answers, APartThatIsAskedAgainHasItsOwnEnd) {
  const auto part = [](O op, std::uint32_t psn) {
    return Scripted{.from_a = false,
                    .op = op,
                    .psn = psn,
                    .payload = 1024,
                    .headers = op == O::kRcReadResponseMiddle ? Octets{} : aeth(1)};
  };
  const Scripted again{.op = O::kRcReadRequest, .psn = 2, .headers = reth(1024, 1024), .wait_us = 60'000};
  const Retold retold = retell_script({{.op = O::kRcReadRequest, .psn = 1, .headers = reth(3072)},
                                       part(O::kRcReadResponseFirst, 1),
                                       part(O::kRcReadResponseMiddle, 2),
                                       part(O::kRcReadResponseLast, 3),
                                       again,
                                       part(O::kRcReadResponseLast, 2)});
  EXPECT_EQ(retold.noted("read_answer"), 0u) << retold.counts();
}

}  // namespace
}  // namespace uroce::explain::test
