// SPDX-License-Identifier: Apache-2.0
// What a process that is killed would say (Cm::poll_last_words), and that its peer then knows.
#include "tests/unit/cm/lab.h"

namespace uroce::cm::test {
namespace {

class LastWords : public Lab {
 protected:
  /// The side is killed; what it has left reaches the other one. Which message that was, if any.
  std::string kill(Side& side, Id id) {
    std::array<std::uint8_t, proto::kMaxPacketSize> frame;
    std::vector<std::uint8_t> packet;
    proto::Path path;
    while (const auto words = side.cm->poll_last_words(frame)) {
      if (words->id != id) continue;
      packet.clear();
      if (!words->packet) continue;
      packet.assign(frame.begin(), frame.begin() + words->packet->size);
      path = words->packet->path;
    }
    if (packet.empty()) return "";
    Side& other = &side == &a ? b : a;
    EXPECT_EQ(path.source, side.address);
    EXPECT_EQ(path.destination, other.address);
    other.cm->on_datagram({path, packet}, world.now());
    settle(other);
    return name_of(packet);
  }
};

TEST_F(LastWords, OfAnEstablishedConnectionDisconnectIt) {
  listen();
  const auto [id_a, id_b] = established();
  EXPECT_EQ(kill(b, id_b), "DREQ");
  expect(a, Kind::kDisconnected);
}

TEST_F(LastWords, OfTheActiveSideToo) {
  listen();
  const auto [id_a, id_b] = established();
  EXPECT_EQ(kill(a, id_a), "DREQ");
  expect(b, Kind::kDisconnected);
}

TEST_F(LastWords, OfAClientWithdrawItsRequest) {
  listen();
  const Id id_a = connect();
  const Event request = expect(b, Kind::kRequest);
  b.cm->fetched(request.id);
  EXPECT_EQ(kill(a, id_a), "REJ");
  EXPECT_EQ(expect(b, Kind::kRejected).status, static_cast<int>(RejectReason::kTimeout));
}

TEST_F(LastWords, OfAServerRefuse) {
  listen();
  connect();
  const Event request = expect(b, Kind::kRequest);
  EXPECT_EQ(kill(b, request.id), "REJ");
  EXPECT_EQ(expect(a, Kind::kRejected).status, static_cast<int>(RejectReason::kConsumer));
}

TEST_F(LastWords, BetweenRepAndRtu) {
  listen();
  connect();
  const Event request = expect(b, Kind::kRequest);
  accept(request.id);
  const Event response = expect(a, Kind::kResponse);
  EXPECT_EQ(kill(a, response.id), "REJ");
  EXPECT_EQ(expect(b, Kind::kRejected).status, static_cast<int>(RejectReason::kConsumer));
}

TEST_F(LastWords, AnswerADisconnectThatTheProgramDidNot) {
  listen();
  const auto [id_a, id_b] = established();
  disconnect(a, id_a);
  expect(b, Kind::kDisconnected);
  EXPECT_EQ(kill(b, id_b), "DREP");
  expect(a, Kind::kDisconnected);
}

TEST_F(LastWords, RepeatADisconnectThatNobodyHasAnswered) {
  listen();
  const auto [id_a, id_b] = established();
  lose("a DREQ", 1, 2);
  disconnect(a, id_a);
  destroy(a, id_a);  // As programs do that end at once.
  EXPECT_THAT(b.events, IsEmpty());
  EXPECT_EQ(kill(a, id_a), "DREQ");
  expect(b, Kind::kDisconnected);
}

TEST_F(LastWords, RepeatTheAnswerToADisconnectWhileItMayBeUnderWay) {
  listen();
  const auto [id_a, id_b] = established();
  lose("b DREP", 1, 2);
  disconnect(a, id_a);
  destroy(b, id_b);
  EXPECT_EQ(b.cm->size(), 1u);
  EXPECT_THAT(a.events, IsEmpty());
  EXPECT_EQ(kill(b, id_b), "DREP");
  expect(a, Kind::kDisconnected);
  run(1s);
  EXPECT_EQ(b.cm->size(), 0u);
  EXPECT_EQ(kill(b, id_b), "");
}

TEST_F(LastWords, AreNoneWhenThePeerKnows) {
  listen();
  const auto [id_a, id_b] = established();
  disconnect(a, id_a);
  disconnect(b, id_b);
  EXPECT_EQ(kill(a, id_a), "");
  run(1s);
  EXPECT_EQ(kill(b, id_b), "");
  destroy(a, id_a);
  destroy(b, id_b);
  EXPECT_EQ(kill(a, id_a), "");
}

}  // namespace
}  // namespace uroce::cm::test
