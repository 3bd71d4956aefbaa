// SPDX-License-Identifier: Apache-2.0
// Disconnecting, destroying, dying: who tells whom, and what is left afterwards.
#include "tests/unit/cm/lab.h"

namespace uroce::cm::test {
namespace {

TEST_F(Lab, ADisconnectIsAnsweredByTheProgram) {
  listen();
  const auto [id_a, id_b] = established();
  disconnect(a, id_a);
  expect(b, Kind::kDisconnected);
  EXPECT_THAT(names(), ElementsAre("a DREQ"));
  EXPECT_EQ(state(b, id_b), State::kDreqReceived);
  run(9s);
  EXPECT_THAT(names(), ElementsAre("a DREQ", "a DREQ"));  // 4.6 s apart, and nothing comes of the second one.
  EXPECT_THAT(b.events, IsEmpty());
  disconnect(b, id_b);
  expect(a, Kind::kDisconnected);
  EXPECT_EQ(state(a, id_a), State::kTimewait);
  run(505ms);
  EXPECT_THAT(a.events, IsEmpty());
  run(10ms);  // 512 ms in all
  expect(a, Kind::kTimewaitExit);
  expect(b, Kind::kTimewaitExit);
  EXPECT_EQ(state(a, id_a), State::kIdle);
  disconnect(a, id_a);  // Nothing, and no error.
  destroy(a, id_a);
  destroy(b, id_b);
  expect_nothing_left();
}

TEST_F(Lab, ThePassiveSideDisconnectsAsWell) {
  listen();
  const auto [id_a, id_b] = established();
  disconnect(b, id_b);
  expect(a, Kind::kDisconnected);
  lose("b DREQ", 2, 100);
  run(5s);
  EXPECT_EQ(times_of("b DREQ")[1] - times_of("b DREQ")[0], 4096ms);
  disconnect(a, id_a);
  expect(b, Kind::kDisconnected);
}

TEST_F(Lab, AConnectionCanHaveALimitedLife) {
  listen();
  const auto [id_a, id_b] = established();
  b.cm->disconnect_at(id_b, world.now() + 1s);
  settle(b);
  run(990ms);
  EXPECT_THAT(names(), IsEmpty());
  run(15ms);
  expect(b, Kind::kDisconnected);  // At once: a program is to see it, whatever its peer does.
  expect(a, Kind::kDisconnected);
  EXPECT_THAT(names(), ElementsAre("b DREQ"));
  disconnect(b, id_b);  // As programs do then: nothing.
  disconnect(a, id_a);
  EXPECT_EQ(state(b, id_b), State::kTimewait);
  run(1s);
  expect(b, Kind::kTimewaitExit);
  expect(a, Kind::kTimewaitExit);
}

TEST_F(Lab, ALimitMeansNothingForWhatIsNotEstablishedOrHasEnded) {
  listen();
  const auto [id_a, id_b] = established();
  a.cm->disconnect_at(id_a, world.now() + 1s);
  settle(a);
  disconnect(b, id_b);
  expect(a, Kind::kDisconnected);
  a.cm->disconnect_at(id_a, world.now() + 1s);
  run(2s);
  EXPECT_EQ(state(a, id_a), State::kDreqReceived);
  EXPECT_THAT(a.events, IsEmpty());
}

TEST_F(Lab, BothDisconnectAtOnce) {
  listen();
  const auto [id_a, id_b] = established();
  a.cm->disconnect(id_a, world.now());
  b.cm->disconnect(id_b, world.now());
  settle(a);
  settle(b);
  expect(a, Kind::kDisconnected);
  expect(b, Kind::kDisconnected);
  EXPECT_THAT(names(), testing::UnorderedElementsAre("a DREQ", "b DREQ"));
  destroy(a, id_a);
  EXPECT_EQ(state(b, id_b), State::kTimewait);
  EXPECT_THAT(b.events, IsEmpty());  // Told already.
  destroy(b, id_b);
  expect_nothing_left();
}

TEST_F(Lab, AnUnansweredDreqEndsAllTheSame) {
  lose("a DREQ", 1, 100);
  listen();
  const auto [id_a, id_b] = established();
  disconnect(a, id_a);
  run(75s);
  EXPECT_EQ(times_of("a DREQ").size(), 16u);
  EXPECT_EQ(expect(a, Kind::kDisconnected).status, -ETIMEDOUT);
  expect(a, Kind::kTimewaitExit);
  EXPECT_THAT(b.events, IsEmpty());
}

TEST_F(Lab, ALostDrepIsSentAgain) {
  lose("b DREP");
  listen();
  const auto [id_a, id_b] = established();
  disconnect(a, id_a);
  disconnect(b, id_b);
  EXPECT_EQ(times_of("b DREP").size(), 1u);
  run(5s);  // After timewait, while the id lives: a kernel is silent here for ever.
  expect(a, Kind::kDisconnected);
  expect(b, Kind::kDisconnected);
  EXPECT_EQ(times_of("b DREP").size(), 2u);
}

TEST_F(KernelLab, ALostDrepIsNotRepairedAfterTimewait) {
  lose("b DREP");
  listen();
  const auto [id_a, id_b] = established();
  disconnect(a, id_a);
  disconnect(b, id_b);
  run(9s);
  EXPECT_EQ(times_of("b DREP").size(), 1u);
  destroy(b, id_b);
  run(5s);
  EXPECT_EQ(times_of("b DREP").size(), 2u);  // For an unknown ID there is one.
  expect(a, Kind::kDisconnected);
}

TEST_F(Lab, ADreqForNobodyIsAnswered) {
  listen();
  const auto [id_a, id_b] = established();
  disconnect(a, id_a);
  disconnect(b, id_b);
  sent.clear();
  Mad dreq{};
  wire::MessageBuilder builder(dreq, Attribute::kDreq, 0x55);
  builder.as<wire::Dreq>().set<wire::Dreq::LocalId>(0x1111).set<wire::Dreq::RemoteId>(0x2222);
  inject(b, kGidA, dreq);
  EXPECT_THAT(names(), ElementsAre("b DREP"));
  const auto drep = last("b DREP");
  EXPECT_EQ(drep.as<wire::Drep>().get<wire::Drep::LocalId>(), 0x2222u);
  EXPECT_EQ(drep.as<wire::Drep>().get<wire::Drep::RemoteId>(), 0x1111u);
  EXPECT_EQ(drep.mad().get<wire::Mad::TransactionId>(), 0x55u);
}

TEST_F(Lab, ADreqInsteadOfTheRtu) {
  lose("a RTU", 1, 100);
  listen();
  const Id id_a = connect();
  const Id id_b = expect(b, Kind::kRequest).id;
  accept(id_b);
  expect(a, Kind::kResponse);
  establish(id_a);
  disconnect(a, id_a);
  expect(b, Kind::kDisconnected);  // Without kEstablished before.
  EXPECT_THAT(b.events, IsEmpty());
  disconnect(b, id_b);
  expect(a, Kind::kDisconnected);
}

TEST_F(Lab, DestroyTellsThePeer) {
  listen();
  const auto [id_a, id_b] = established();
  destroy(a, id_a);
  EXPECT_FALSE(a.cm->query(id_a));
  EXPECT_EQ(a.cm->disconnect(id_a, world.now()), EINVAL);
  expect(b, Kind::kDisconnected);
  destroy(b, id_b);
  EXPECT_THAT(names(), ElementsAre("a DREQ", "b DREP"));
  EXPECT_THAT(a.events, IsEmpty());
  expect_nothing_left();
}

TEST_F(Lab, ADestroyedIdRepeatsItsDreq) {
  lose("a DREQ", 1, 3);
  listen();
  const auto [id_a, id_b] = established();
  destroy(a, id_a);
  run(20s);
  EXPECT_EQ(times_of("a DREQ").size(), 5u);
  expect(b, Kind::kDisconnected);
  destroy(b, id_b);
  expect_nothing_left();
}

TEST_F(Lab, ADestroyedIdIsNotInTheWayOfThePeersNextLife) {
  lose("b DREQ", 1, 100);
  listen();
  const auto [id_a, id_b] = established();
  destroy(b, id_b);
  CmConfig config = a.cm->config();
  config.seed = 77;
  a.cm.emplace(config);  // As after a crash of its host: the same QPN.
  connect();
  expect(b, Kind::kRequest);
  EXPECT_THAT(a.events, IsEmpty());
  static_cast<void>(id_a);
}

TEST_F(KernelLab, ADestroyedIdSendsOneDreq) {
  lose("a DREQ");
  listen();
  const auto [id_a, id_b] = established();
  destroy(a, id_a);
  EXPECT_EQ(a.cm->size(), 0u);
  run(60s);
  EXPECT_THAT(names(), ElementsAre("a DREQ"));
  EXPECT_EQ(state(b, id_b), State::kEstablished);
}

TEST_F(Lab, BothDestroyAtOnce) {
  listen();
  const auto [id_a, id_b] = established();
  a.cm->destroy(id_a, world.now());
  b.cm->destroy(id_b, world.now());
  settle(a);
  settle(b);
  run(100ms);
  // Nobody is left to ask: each answers the other's DREQ by itself.
  EXPECT_THAT(names(), testing::UnorderedElementsAre("a DREQ", "b DREQ", "a DREP", "b DREP"));
  expect_nothing_left();
}

TEST_F(Lab, DestroyInEveryState) {
  listen();
  // REQ sent
  Id id_a = connect();
  Id id_b = expect(b, Kind::kRequest).id;
  destroy(a, id_a);
  EXPECT_EQ(expect(b, Kind::kRejected).status, 4);
  destroy(b, id_b);
  EXPECT_THAT(names(), ElementsAre("a REQ", "a REJ"));
  const auto tid = last("a REJ").mad().get<wire::Mad::TransactionId>();
  EXPECT_EQ(tid, last("a REQ").mad().get<wire::Mad::TransactionId>());
  EXPECT_EQ(tid >> 32, kService & 0xFFFFFFFF) << "that goes to whoever got the REQ";
  // REQ received
  id_a = connect();
  destroy(b, expect(b, Kind::kRequest).id);
  EXPECT_EQ(expect(a, Kind::kRejected).status, 28);
  destroy(a, id_a);
  // REP sent
  id_a = connect();
  id_b = expect(b, Kind::kRequest).id;
  accept(id_b);
  expect(a, Kind::kResponse);
  destroy(b, id_b);
  EXPECT_EQ(last("b REJ").as<wire::Rej>().get<wire::Rej::Message>(), 2);
  EXPECT_EQ(expect(a, Kind::kRejected).status, 28);
  destroy(a, id_a);
  // REP received
  id_a = connect();
  id_b = expect(b, Kind::kRequest).id;
  accept(id_b);
  expect(a, Kind::kResponse);
  destroy(a, id_a);
  EXPECT_EQ(last("a REJ").as<wire::Rej>().get<wire::Rej::Message>(), 1);
  EXPECT_EQ(expect(b, Kind::kRejected).status, 28);
  destroy(b, id_b);
  // DREQ sent
  std::tie(id_a, id_b) = established();
  disconnect(a, id_a);
  destroy(a, id_a);
  expect(b, Kind::kDisconnected);
  destroy(b, id_b);
  EXPECT_THAT(names(), ElementsAre("a DREQ", "b DREP"));
  EXPECT_THAT(a.events, IsEmpty());
  expect_nothing_left();
}

TEST_F(Lab, AProcessThatEndsSaysSoOnce) {
  listen();
  established();
  ConnectRequest request = request_to_b();
  request.params.qpn = 0x12;
  connect(request);
  b.events.clear();
  sent.clear();
  a.cm->shutdown(world.now());
  settle(a);
  EXPECT_EQ(a.cm->size(), 0u);
  EXPECT_THAT(names(), testing::UnorderedElementsAre("a DREQ", "a REJ"));
  run(20s);
  EXPECT_EQ(sent.size(), 2u);
  expect(b, Kind::kDisconnected);
  EXPECT_EQ(expect(b, Kind::kRejected).status, 4);
}

TEST_F(Lab, ANewLifeOfThePeerEndsTheOldConnection) {
  listen();
  established();
  // A dies without a word; its next process gets the same QPN.
  CmConfig config = a.cm->config();
  config.seed = 77;
  a.cm.emplace(config);
  const Id again = connect();
  EXPECT_EQ(expect(a, Kind::kRejected).status, 10);
  run(10ms);
  expect(b, Kind::kDisconnected);  // A answers the DREQ, as it knows no such connection.
  EXPECT_THAT(names(), ElementsAre("a REQ", "b REJ", "b DREQ", "a DREP"));
  run(1s);
  destroy(a, again);
  connect();
  run(10ms);
  EXPECT_EQ(b.events.size(), 2u);  // kTimewaitExit, and a request like any other.
}

TEST_F(Lab, ARejectOfAnEstablishedConnectionEndsIt) {
  listen();
  const auto [id_a, id_b] = established();
  Mad rej{};
  wire::MessageBuilder builder(rej, Attribute::kRej, 1);
  builder.as<wire::Rej>().set<wire::Rej::RemoteId>(id_b).set<wire::Rej::LocalId>(id_a).set<wire::Rej::Reason>(28);
  inject(b, kGidA, rej);
  EXPECT_EQ(expect(b, Kind::kRejected).status, 28);
  EXPECT_EQ(state(b, id_b), State::kTimewait);
  run(1s);
  EXPECT_THAT(b.events, IsEmpty());  // kTimewaitExit is for what was disconnected.
}

// As a peer says that gives up on its REQ. One that is connected has our ID; without it, this may be anybody's guess.
TEST_F(Lab, ARejectWithoutOurIdDoesNotEndAnEstablishedConnection) {
  listen();
  const auto [id_a, id_b] = established();
  Mad rej{};
  wire::MessageBuilder builder(rej, Attribute::kRej, 1);
  builder.as<wire::Rej>().set<wire::Rej::LocalId>(id_a).set<wire::Rej::Reason>(4);
  store_be<8>(builder.additional_info().data(), 0xA);
  inject(b, kGidA, rej);
  EXPECT_THAT(b.events, IsEmpty());
  EXPECT_EQ(state(b, id_b), State::kEstablished);
  EXPECT_EQ(b.cm->counters().unmatched, 1u);
}

TEST_F(Lab, AConnectionRequestInTimewaitIsNew) {
  listen();
  auto [id_a, id_b] = established();
  disconnect(a, id_a);
  disconnect(b, id_b);
  expect(b, Kind::kDisconnected);
  EXPECT_EQ(state(b, id_b), State::kTimewait);
  connect();  // With the same QPN.
  expect(b, Kind::kRequest);
}

TEST_F(Lab, TimesCanBeDivided) {
  CmConfig config = a.cm->config();
  config.time_divisor = 100;
  a.cm.emplace(config);
  lose("a REQ", 1, 100);
  connect();
  run(1s);
  EXPECT_EQ(times_of("a REQ").size(), 16u);
  EXPECT_EQ(times_of("a REQ")[1], 46080us);
}

// No packet of a thousand connections that end in every way leaves anything behind.
TEST_F(Lab, NothingIsLeftOfManyConnections) {
  listen();
  world.link().config().impairments = {.loss = 0.2, .duplicate = 0.1, .reorder = 0.1, .corrupt = 0.02};
  std::vector<Id> ids;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    ConnectRequest request = request_to_b();
    request.params.qpn = 0x100 + i;
    ids.push_back(*a.cm->connect(request, world.now()));
    settle(a);
    while (!b.events.empty()) {
      const Event event = b.events.front();
      b.events.pop_front();
      if (event.kind != Kind::kRequest) continue;
      b.cm->fetched(event.id);
      if (i % 3 == 0) b.cm->reject(event.id, RejectReason::kConsumer, {}, world.now());
      if (i % 3 == 1) {
        ConnectionParams params = kPassive;
        params.qpn += i;
        b.cm->accept(event.id, params, {}, world.now());
      }
      settle(b);
    }
    while (!a.events.empty()) {
      const Event event = a.events.front();
      a.events.pop_front();
      if (event.kind == Kind::kResponse) a.cm->establish(event.id, world.now());
      settle(a);
    }
  }
  a.cm->shutdown(world.now());
  b.cm->shutdown(world.now());
  expect_nothing_left();
}

}  // namespace
}  // namespace uroce::cm::test
