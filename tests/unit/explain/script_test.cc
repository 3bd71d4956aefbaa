// SPDX-License-Identifier: Apache-2.0
// Packets that no NIC of ours sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/explain/retold.h"
#include "tests/unit/explain/scripted.h"

namespace uroce::explain::test {
namespace {

using O = proto::Opcode;

/// A QP that is connected to itself: an answer to it is one to its own requests.
TEST(Script, AQpIsConnectedToItself) {
  Ends itself;
  itself.b = itself.a;
  itself.qp_b = itself.qp_a;
  const Retold retold = retell_bytes(scripted_pcap({{true, O::kRcSendFirst, 1, 1024},
                                                    {true, O::kRcSendLast, 2, 4},
                                                    {false, O::kRcAcknowledge, 2, 0, aeth(1)},
                                                    {true, O::kRcReadRequest, 3, 0, reth(2048)},
                                                    {false, O::kRcReadResponseFirst, 3, 1024, aeth(2)},
                                                    {false, O::kRcReadResponseLast, 4, 1024, aeth(2)},
                                                    {true, O::kRcSendOnly, 5, 4},
                                                    {false, O::kRcAcknowledge, 5, 0, aeth(3)}},
                                                   itself));
  EXPECT_EQ(retold.counts(), "");
  ASSERT_EQ(retold.story->connections().size(), 1u);
  const Connection& connection = *retold.story->connections()[0];
  EXPECT_EQ(connection.pairing, Pairing::kAnswers);
  EXPECT_EQ(connection.left.qpn, itself.qp_a);
  EXPECT_EQ(connection.to_right.numbers().unanswered, 0u);
  EXPECT_EQ(connection.to_right.numbers().acked_bytes, 1028u + 2048 + 4);
  EXPECT_EQ(connection.to_left.numbers().packets, 0u);
  EXPECT_FALSE(retold.lines.at(2).told.from_left);
}

/// Two QPs of one host stay two.
TEST(Script, TwoQpsOfOneHostAreNotTakenForOne) {
  Ends one_host;
  one_host.b = one_host.a;
  const Retold retold = retell_bytes(scripted_pcap({{true, O::kRcSendOnly, 1, 4},
                                                    {false, O::kRcSendOnly, 1, 4},
                                                    {true, O::kRcAcknowledge, 1, 0, aeth(1)},
                                                    {false, O::kRcAcknowledge, 1, 0, aeth(1)}},
                                                   one_host));
  EXPECT_EQ(retold.counts(), "");
  const Connection& connection = *retold.story->connections().at(0);
  EXPECT_EQ(connection.to_right.numbers().acked_bytes, 4u);
  EXPECT_EQ(connection.to_left.numbers().acked_bytes, 4u);
}

}  // namespace
}  // namespace uroce::explain::test
