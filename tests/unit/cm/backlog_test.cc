// SPDX-License-Identifier: Apache-2.0
// Requests that come faster than the program takes them: they wait for a place, in order.
#include "tests/unit/cm/lab.h"
#include "verbs/cm/latecomers.h"

namespace uroce::cm::test {
namespace {

/// Three requests for a listener whose backlog is 1.
class FullBacklog : public Lab {
 protected:
  FullBacklog() {
    listener = listen(1);
    for (std::uint32_t i = 0; i < 3; ++i) {
      ConnectRequest request = request_to_b();
      request.params.qpn += i;
      ids.push_back(connect(request));
    }
  }
  ListenerId listener;
  std::vector<Id> ids;
};

TEST_F(FullBacklog, RequestsWaitForAPlace) {
  EXPECT_EQ(b.events.size(), 1u);
  EXPECT_EQ(b.cm->size(), 1u);
  b.cm->fetched(b.events.back().id);
  settle(b);
  EXPECT_EQ(b.events.size(), 2u);  // One place, one request.
  run(3s);
  b.cm->fetched(b.events.back().id);
  settle(b);
  EXPECT_EQ(b.events.size(), 3u);
  EXPECT_EQ(b.cm->counters().overflows, 0u);
  EXPECT_EQ(times_of("a REQ").size(), 3u);
  EXPECT_THAT(times_of("b REJ"), IsEmpty());
}

TEST_F(FullBacklog, RequestsThatHaveWaitedLongAreDroppedAndComeAgain) {
  run(4500ms);
  EXPECT_EQ(b.cm->counters().overflows, 2u);
  b.cm->fetched(b.events.back().id);
  settle(b);
  EXPECT_EQ(b.events.size(), 1u);
  run(200ms);
  EXPECT_EQ(b.events.size(), 2u);
  EXPECT_EQ(times_of("a REQ").size(), 6u);
}

TEST_F(FullBacklog, ARepeatedRequestWaitsOnce) {
  inject(b, kGidA, sent.back().mad);
  for (int i = 0; i < 3; ++i) {
    b.cm->fetched(b.events.back().id);
    settle(b);
  }
  EXPECT_EQ(b.events.size(), 3u);
}

TEST_F(FullBacklog, ARequestThatIsWithdrawnNoLongerWaits) {
  destroy(a, ids[1]);
  b.cm->fetched(b.events.back().id);
  settle(b);
  EXPECT_EQ(b.events.size(), 2u);
  EXPECT_EQ(b.cm->query(b.events.back().id)->remote_qpn, kActive.qpn + 2);
}

TEST_F(FullBacklog, WhatWaitsWhenTheListenerGoesWaitsForTheNextOne) {
  b.cm->unlisten(listener, world.now());
  settle(b);
  EXPECT_EQ(times_of("b REJ").size(), 1u);  // To the request that had a place.
  b.events.clear();
  listener = listen();
  settle(b);
  EXPECT_EQ(b.events.size(), 2u);
}

TEST_F(FullBacklog, WhatWaitsWhenTheListenerGoesIsRefusedIfThereIsNoOther) {
  b.cm->unlisten(listener, world.now());
  settle(b);
  run(1100ms);
  EXPECT_EQ(times_of("b REJ").size(), 3u);
  EXPECT_EQ(last("b REJ").as<wire::Rej>().get<wire::Rej::Reason>(), 8);
}

TEST_F(KernelLab, RequestsBeyondTheBacklogAreDropped) {
  listen(1);
  connect();
  ConnectRequest request = request_to_b();
  ++request.params.qpn;
  connect(request);
  EXPECT_EQ(b.cm->counters().overflows, 1u);
  b.cm->fetched(b.events.back().id);
  settle(b);
  EXPECT_EQ(b.events.size(), 1u);
  run(5s);
  EXPECT_EQ(b.events.size(), 2u);
}

/// More requests than there are places, of one peer.
class ManyAtOnce : public Lab {
 protected:
  static constexpr std::uint32_t kMany = 10000;

  void connect_all(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ConnectRequest request = request_to_b();
      request.params.qpn += i;
      ASSERT_TRUE(a.cm->connect(request, world.now()).ok());
    }
    settle(a);
  }
  /// Fetches what B is told of, until that is all.
  void take(bool and_accept) {
    while (!b.events.empty()) {
      const Event event = b.events.front();
      b.events.pop_front();
      if (event.kind != Kind::kRequest) continue;
      taken.push_back(event.params.qpn);
      b.cm->fetched(event.id);
      ConnectionParams params = kPassive;
      params.qpn = event.params.qpn;
      const Errno error = and_accept ? b.cm->accept(event.id, params, {}, world.now()) : 0;
      EXPECT_EQ(error, 0);
      if (b.events.empty()) settle(b);
    }
  }
  std::vector<std::uint32_t> taken;  ///< QPNs of the peers.
};

TEST_F(ManyAtOnce, NobodyHasToAskAgain) {
  listen();
  connect_all(kMany);
  take(true);
  EXPECT_EQ(taken.size(), kMany);
  EXPECT_TRUE(std::ranges::is_sorted(taken));
  EXPECT_EQ(times_of("a REQ").size(), kMany);
  EXPECT_EQ(b.cm->counters().overflows, 0u);
}

TEST_F(ManyAtOnce, ThoseWhoMayNotComeInAreInNobodysWay) {
  constexpr std::uint32_t kBacklog = 5;
  listen(kBacklog);
  connect_all(Cm::kMaxHalfOpenPerSource + 5);
  take(false);
  EXPECT_EQ(taken.size(), Cm::kMaxHalfOpenPerSource);  // The others may come when some of these are accepted.

  std::vector<std::uint8_t> mad = sent.front().mad;
  const Gid other = Gid::from_v4(10, 77, 0, 2);
  const proto::MutView<wire::Req> fields{mad.data() + wire::Mad::kSize};
  wire::set_gid<wire::Req::LocalGidHigh, wire::Req::LocalGidLow>(fields, other);
  wire::build_addresses({other, kGidB, 1}, MutBytes(mad).subspan(wire::Mad::kSize + wire::Req::kSize));
  for (std::uint32_t i = 0; i <= kBacklog; ++i) {
    fields.set<wire::Req::LocalId>(0x5000'0000 + i).set<wire::Req::Qpn>(0x5000 + i);
    inject(b, other, mad);
  }
  take(false);
  EXPECT_EQ(taken.size(), Cm::kMaxHalfOpenPerSource + kBacklog + 1);
}

TEST_F(ManyAtOnce, ThereIsALimit) {
  listen();
  connect_all(Cm::kMaxHalfOpenPerSource + Latecomers::kMost + 7);
  EXPECT_EQ(b.cm->counters().overflows, 7u);
}

}  // namespace
}  // namespace uroce::cm::test
