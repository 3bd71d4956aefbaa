// SPDX-License-Identifier: Apache-2.0
// Connecting: REQ, REP, RTU, refusals, and every one of them lost or doubled.
#include "tests/unit/cm/lab.h"

namespace uroce::cm::test {
namespace {

TEST_F(Lab, ConnectsWithWhatBothSidesSay) {
  const ListenerId listener = listen();
  const Id id_a = connect();
  EXPECT_EQ(state(a, id_a), State::kReqSent);

  const Event request = expect(b, Kind::kRequest);
  EXPECT_EQ(request.listener, listener);
  EXPECT_EQ(request.params.qpn, kActive.qpn);
  EXPECT_EQ(request.params.responder_resources, kActive.initiator_depth);
  EXPECT_EQ(request.params.initiator_depth, kActive.responder_resources);
  EXPECT_EQ(request.params.retry_count, 6);
  EXPECT_EQ(request.params.rnr_retry_count, 5);
  EXPECT_EQ(request.private_data.size, kReqPrivateData);
  EXPECT_THAT(Bytes(request.private_data.bytes).first(4), ElementsAre(1, 2, 3, 0));
  const ConnectionInfo before = *b.cm->query(request.id);
  EXPECT_EQ(before.max_dest_rd_atomic, kActive.initiator_depth);
  EXPECT_EQ(before.max_rd_atomic, kActive.responder_resources);
  EXPECT_EQ(before.local, (Endpoint{kGidB, 7000}));
  EXPECT_EQ(before.remote, (Endpoint{kGidA, 40000}));
  EXPECT_EQ(before.service_id, kService);

  EXPECT_EQ(accept(request.id), 0);
  const Event response = expect(a, Kind::kResponse);
  EXPECT_EQ(response.params.qpn, kPassive.qpn);
  EXPECT_EQ(response.params.responder_resources, kPassive.initiator_depth);
  EXPECT_EQ(response.params.initiator_depth, kPassive.responder_resources);
  EXPECT_EQ(response.private_data.size, kRepPrivateData);
  EXPECT_THAT(Bytes(response.private_data.bytes).first(3), ElementsAre(7, 8, 0));

  EXPECT_EQ(establish(id_a), 0);
  expect(b, Kind::kEstablished);
  EXPECT_THAT(names(), ElementsAre("a REQ", "b REP", "a RTU"));

  const ConnectionInfo at_a = *a.cm->query(id_a), at_b = *b.cm->query(request.id);
  EXPECT_EQ(at_a.remote_qpn, kPassive.qpn);
  EXPECT_EQ(at_b.remote_qpn, kActive.qpn);
  EXPECT_EQ(at_a.local_psn, at_b.remote_psn);  // A PSN is what its sender wants to receive first.
  EXPECT_EQ(at_a.remote_psn, at_b.local_psn);
  EXPECT_NE(at_a.local_psn, at_b.local_psn);
  EXPECT_EQ(at_a.path.flow_label, (40000 * 31 + 7000) & 0xFFFFF);
  EXPECT_EQ(at_b.path.flow_label, at_a.path.flow_label);
  EXPECT_EQ(at_a.ack_timeout, 17);
  EXPECT_EQ(at_b.ack_timeout, 17);
  EXPECT_EQ(at_b.path.life_time, 16);
  EXPECT_EQ(at_a.retry_count, 6);
  EXPECT_EQ(at_b.retry_count, 6);
  EXPECT_EQ(at_a.rnr_retry_count, kPassive.rnr_retry_count);
  EXPECT_EQ(at_b.rnr_retry_count, kActive.rnr_retry_count);
  EXPECT_EQ(at_b.max_dest_rd_atomic, kPassive.responder_resources);
  EXPECT_EQ(at_a.max_rd_atomic, kPassive.responder_resources);
  EXPECT_EQ(state(a, id_a), State::kEstablished);
  EXPECT_EQ(state(b, request.id), State::kEstablished);
  EXPECT_FALSE(a.cm->next_deadline());
  EXPECT_FALSE(b.cm->next_deadline());
}

TEST_F(Lab, TransactionIdsFollowTheRequest) {
  listen();
  const auto [id_a, id_b] = established();
  disconnect(b, id_b);
  disconnect(a, id_a);
  EXPECT_EQ(last("b DREQ").mad().get<wire::Mad::TransactionId>(), std::uint64_t{2} << 32 | id_b);
  EXPECT_EQ(last("a DREP").mad().get<wire::Mad::TransactionId>(), std::uint64_t{2} << 32 | id_b);
}

TEST_F(Lab, AnUnansweredRequestIsSentSixteenTimes) {
  lose("a REQ", 1, 100);
  listen();
  const Id id = connect();
  run(80s);
  const auto times = times_of("a REQ");
  ASSERT_EQ(times.size(), 16u);
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_EQ(times[i], static_cast<int>(i) * 4608ms);
  EXPECT_EQ(expect(a, Kind::kUnreachable).status, -ETIMEDOUT);
  EXPECT_EQ(state(a, id), State::kIdle);
  EXPECT_EQ(names().back(), "a REJ");  // For a server that has heard it and cannot answer.
  EXPECT_EQ(last("a REJ").as<wire::Rej>().get<wire::Rej::Reason>(), 4);
  EXPECT_EQ(a.cm->counters().retries, 15u);
  destroy(a, id);
  expect_nothing_left();
}

TEST_F(Lab, NobodyIsThereToRefuse) {
  lose("a REQ", 1, 100);
  const Id id = connect();
  run(4s);
  a.deserted = kGidB;
  run(10s);
  const Event refused = expect(a, Kind::kRejected);
  EXPECT_EQ(refused.status, 8) << "no such service";
  EXPECT_EQ(refused.private_data.size, kRejPrivateData);
  EXPECT_THAT(times_of("a REQ"), ElementsAre(0ms));
  EXPECT_EQ(state(a, id), State::kIdle);
  destroy(a, id);
  expect_nothing_left();
}

TEST_F(Lab, SomebodyComesBeforeTheNextTry) {
  lose("a REQ");
  a.deserted = kGidB;
  connect();
  run(4s);
  a.deserted.reset();
  listen();
  run(5s);
  expect(b, Kind::kRequest);
}

TEST_F(KernelLab, GivesUpInSilence) {
  lose("a REQ", 1, 100);
  connect();
  run(80s);
  EXPECT_EQ(names().back(), "a REQ");
  expect(a, Kind::kUnreachable);
}

TEST_F(Lab, AnAckTimeoutShortensTheRequestTimer) {
  lose("a REQ", 1, 100);
  ConnectRequest request = request_to_b();
  request.path.life_time = 13;  // ACK_TIMEOUT 14
  connect(request);
  run(10s);
  EXPECT_THAT(times_of("a REQ"), ElementsAre(0ms, 4160ms, 8320ms));
  EXPECT_EQ(last("a REQ").as<wire::Req>().get<wire::Req::AckTimeout>(), 16);
}

TEST_F(Lab, ALostRequestIsRepaired) {
  lose("a REQ");
  listen();
  connect();
  run(5s);
  expect(b, Kind::kRequest);
  EXPECT_THAT(b.events, IsEmpty());
}

TEST_F(Lab, ALostReplyIsSentAgain) {
  lose("b REP");
  listen();
  const Id id = connect();
  EXPECT_EQ(accept(expect(b, Kind::kRequest).id), 0);
  run(4500ms);
  expect(a, Kind::kResponse);
  EXPECT_EQ(times_of("b REP").size(), 2u);
  EXPECT_EQ(times_of("b REP")[1] - times_of("b REP")[0], 4096ms);
  EXPECT_THAT(times_of("a REQ").size(), 1u);
  EXPECT_EQ(establish(id), 0);
  expect(b, Kind::kEstablished);
}

TEST_F(Lab, ALostRtuIsRepairedByTheReply) {
  lose("a RTU");
  listen();
  const Id id = connect();
  accept(expect(b, Kind::kRequest).id);
  expect(a, Kind::kResponse);
  establish(id);
  EXPECT_THAT(b.events, IsEmpty());
  run(5s);
  expect(b, Kind::kEstablished);
  EXPECT_THAT(names(), ElementsAre("a REQ", "b REP", "a RTU", "b REP", "a RTU"));
  EXPECT_THAT(a.events, IsEmpty());
}

TEST_F(Lab, TheFirstDataStandsForALostRtu) {
  lose("a RTU", 1, 100);
  listen();
  const Id id_a = connect();
  const Id id_b = expect(b, Kind::kRequest).id;
  EXPECT_FALSE(b.cm->awaits_data(kPassive.qpn));
  accept(id_b);
  expect(a, Kind::kResponse);
  establish(id_a);
  EXPECT_TRUE(b.cm->awaits_data(kPassive.qpn));
  EXPECT_FALSE(b.cm->awaits_data(kPassive.qpn + 1));

  const std::uint32_t psn = b.cm->query(id_b)->local_psn;
  b.cm->on_data(kPassive.qpn, kGidA, psn + 1, world.now());  // Not the first one.
  b.cm->on_data(kPassive.qpn, Gid::from_v4(10, 77, 0, 2), psn, world.now());
  EXPECT_EQ(state(b, id_b), State::kRepSent);
  b.cm->on_data(kPassive.qpn, kGidA, psn, world.now());
  settle(b);
  expect(b, Kind::kEstablished);
  EXPECT_FALSE(b.cm->awaits_data(kPassive.qpn));
  EXPECT_FALSE(b.cm->next_deadline());
  EXPECT_EQ(b.cm->notify_established(id_b, world.now()), EISCONN);
}

TEST_F(Lab, AProgramMaySayThatItIsEstablished) {
  lose("a RTU", 1, 100);
  listen();
  const Id id_a = connect();
  const Id id_b = expect(b, Kind::kRequest).id;
  EXPECT_EQ(b.cm->notify_established(id_b, world.now()), EINVAL);
  accept(id_b);
  EXPECT_EQ(a.cm->notify_established(id_a, world.now()), EINVAL);
  EXPECT_EQ(b.cm->notify_established(id_b, world.now()), 0);
  settle(b);
  expect(b, Kind::kEstablished);
}

TEST_F(Lab, AnUnansweredReplyIsGivenUp) {
  lose("b REP", 1, 100);
  lose("a REQ", 2, 100);
  listen();
  const Id id_a = connect();
  const Id id_b = expect(b, Kind::kRequest).id;
  accept(id_b);
  run(70s);
  EXPECT_EQ(times_of("b REP").size(), 16u);
  EXPECT_EQ(expect(b, Kind::kUnreachable).status, -ETIMEDOUT);
  // The active side hears of it. A kernel finds the connection by the GUID and the ID of who gives up.
  EXPECT_EQ(expect(a, Kind::kRejected).status, 4);
  const auto rej = last("b REJ");
  ASSERT_EQ(rej.additional_info().size(), 72u);
  EXPECT_EQ(load_be<8>(rej.additional_info().data()), 0xBu);
  EXPECT_EQ(rej.as<wire::Rej>().get<wire::Rej::InfoLength>(), 8);
  EXPECT_EQ(rej.as<wire::Rej>().get<wire::Rej::LocalId>(), id_b);
  destroy(a, id_a);
  destroy(b, id_b);
  expect_nothing_left();
}

TEST_F(Lab, ADuplicateRequestIsNoSecondConnection) {
  duplicate("a REQ");
  listen();
  connect();
  run(10ms);
  const Id id = expect(b, Kind::kRequest).id;
  EXPECT_THAT(b.events, IsEmpty());
  EXPECT_EQ(b.cm->size(), 1u);
  // The program has not answered: the peer is to wait longer.
  EXPECT_THAT(names(), ElementsAre("a REQ", "b MRA"));
  EXPECT_EQ(last("b MRA").as<wire::Mra>().get<wire::Mra::ServiceTimeout>(), 24);
  EXPECT_EQ(last("b MRA").as<wire::Mra>().get<wire::Mra::LocalId>(), id);
  // And does: 2^16 + 2^9 ms.
  run(66047ms - 10ms);
  EXPECT_EQ(times_of("a REQ").size(), 1u);
  run(20ms);
  EXPECT_EQ(times_of("a REQ").size(), 2u);
}

TEST_F(Lab, ADuplicateRequestAfterTheAnswerIsSilence) {
  listen();
  connect();
  const std::vector<std::uint8_t> req = sent.back().mad;
  const Id id = expect(b, Kind::kRequest).id;
  accept(id);
  inject(b, kGidA, req);
  EXPECT_THAT(names(), ElementsAre("a REQ", "b REP"));
  establish(expect(a, Kind::kResponse).id);
  inject(b, kGidA, req);
  EXPECT_THAT(names(), ElementsAre("a REQ", "b REP", "a RTU"));
  EXPECT_EQ(state(b, id), State::kEstablished);
  EXPECT_EQ(b.cm->counters().duplicates, 2u);
}

TEST_F(Lab, ADuplicateReplyBeforeTheProgramAnswers) {
  duplicate("b REP");
  listen();
  const Id id = connect();
  accept(expect(b, Kind::kRequest).id);
  run(10ms);
  expect(a, Kind::kResponse);
  EXPECT_THAT(a.events, IsEmpty());
  EXPECT_THAT(names(), ElementsAre("a REQ", "b REP", "a MRA"));
  EXPECT_EQ(last("a MRA").as<wire::Mra>().get<wire::Mra::Message>(), 1);
  run(60s);
  EXPECT_EQ(times_of("b REP").size(), 1u);  // The MRA works.
  establish(id);
  expect(b, Kind::kEstablished);
}

TEST_F(Lab, APeerCanNotMakeUsWaitForEver) {
  lose("b REP", 1, 100);
  listen();
  connect();
  const Id id_b = expect(b, Kind::kRequest).id;
  inject(b, kGidA, sent.front().mad);  // So that B has something to send.
  const std::vector<std::uint8_t> mra = sent.back().mad;
  for (int i = 0; i < 60 && a.events.empty(); ++i) {
    run(30s);
    inject(a, kGidB, mra);
  }
  EXPECT_EQ(expect(a, Kind::kUnreachable).status, -ETIMEDOUT);
  EXPECT_EQ(times_of("a REQ").size(), 16u);
  static_cast<void>(id_b);
}

TEST_F(Lab, ADuplicateRtuIsNothing) {
  duplicate("a RTU");
  listen();
  established();
  run(10ms);
  EXPECT_THAT(b.events, IsEmpty());
}

TEST_F(Lab, NobodyListens) {
  const Id id = connect();
  EXPECT_EQ(expect(a, Kind::kRejected).status, 8);
  EXPECT_EQ(b.cm->size(), 0u);
  const auto rej = last("b REJ").as<wire::Rej>();
  EXPECT_EQ(rej.get<wire::Rej::LocalId>(), 0u);
  EXPECT_EQ(rej.get<wire::Rej::RemoteId>(), id);
  EXPECT_EQ(state(a, id), State::kIdle);
  destroy(a, id);
  expect_nothing_left();
}

// perftest's server listens anew for each of its connections, and its client does not wait for that.
TEST_F(Lab, ARequestWaitsForTheNextListener) {
  b.cm->unlisten(listen(), world.now());
  connect();
  world.run_for(900ms);
  EXPECT_THAT(names(), ElementsAre("a REQ"));
  const ListenerId listener = listen();
  settle(b);
  const Event request = expect(b, Kind::kRequest);
  EXPECT_EQ(request.listener, listener);
  EXPECT_EQ(request.params.qpn, kActive.qpn);
  EXPECT_EQ(accept(request.id), 0);
  expect(a, Kind::kResponse);
}

TEST_F(Lab, ARequestThatComesLaterWaitsToo) {
  b.cm->unlisten(listen(), world.now());
  world.run_for(1100ms);  // perftest's programs sleep for a second.
  connect();
  world.run_for(900ms);
  EXPECT_THAT(names(), ElementsAre("a REQ"));
  listen();
  settle(b);
  expect(b, Kind::kRequest);
}

TEST_F(Lab, ARequestThatComesMuchLaterDoesNotWait) {
  b.cm->unlisten(listen(), world.now());
  world.run_for(3s);
  connect();
  world.run_for(10ms);
  EXPECT_THAT(names(), ElementsAre("a REQ", "b REJ"));
}

class LabOfNewNics : public Lab {
 protected:
  LabOfNewNics() : Lab(false, 1s) {}
};

TEST_F(LabOfNewNics, ARequestWaitsForTheFirstListener) {
  connect();
  world.run_for(900ms);
  EXPECT_THAT(names(), ElementsAre("a REQ"));
  listen();
  settle(b);
  expect(b, Kind::kRequest);
}

TEST_F(LabOfNewNics, ARequestThatComesLaterDoesNotWait) {
  world.run_for(1s);
  connect();
  world.run_for(10ms);
  EXPECT_THAT(names(), ElementsAre("a REQ", "b REJ"));
}

TEST_F(Lab, ARequestDoesNotWaitForLongForAListener) {
  b.cm->unlisten(listen(), world.now());
  connect();
  inject(b, kGidA, sent.back().mad);  // The same again is one request.
  world.run_for(900ms);
  EXPECT_THAT(names(), ElementsAre("a REQ"));
  world.run_for(200ms);
  EXPECT_EQ(expect(a, Kind::kRejected).status, 8);
  EXPECT_THAT(names(), ElementsAre("a REQ", "b REJ"));
}

// Linux rejects it at once.
TEST_F(KernelLab, ARequestDoesNotWaitForAListener) {
  b.cm->unlisten(listen(), world.now());
  connect();
  EXPECT_EQ(expect(a, Kind::kRejected).status, 8);
}

TEST_F(Lab, AProgramRejects) {
  listen();
  const Id id_a = connect();
  const Id id_b = expect(b, Kind::kRequest).id;
  EXPECT_EQ(reject(b, id_b, data({1, 2})), 0);
  const Event rejected = expect(a, Kind::kRejected);
  EXPECT_EQ(rejected.status, 28);
  EXPECT_EQ(rejected.private_data.size, kRejPrivateData);
  EXPECT_THAT(Bytes(rejected.private_data.bytes).first(3), ElementsAre(1, 2, 0));
  EXPECT_EQ(reject(b, id_b), EINVAL);
  EXPECT_EQ(accept(id_b), EINVAL);
  EXPECT_EQ(reject(a, id_a), EINVAL);
  destroy(a, id_a);
  destroy(b, id_b);
  expect_nothing_left();
}

// As on a kernel: a refused request is forgotten.
TEST_F(Lab, ALostRejectMeansASecondRequest) {
  lose("b REJ");
  listen();
  connect();
  const Id first = expect(b, Kind::kRequest).id;
  reject(b, first);
  run(5s);
  const Id second = expect(b, Kind::kRequest).id;
  EXPECT_NE(first, second);
  reject(b, second);
  expect(a, Kind::kRejected);
}

TEST_F(Lab, TheActiveProgramMayRejectTheReply) {
  listen();
  const Id id_a = connect();
  const Id id_b = expect(b, Kind::kRequest).id;
  accept(id_b);
  expect(a, Kind::kResponse);
  EXPECT_EQ(reject(a, id_a), 0);
  EXPECT_EQ(expect(b, Kind::kRejected).status, 28);
  EXPECT_EQ(last("a REJ").as<wire::Rej>().get<wire::Rej::Message>(), 1);
  EXPECT_EQ(state(b, id_b), State::kIdle);
  EXPECT_EQ(establish(id_a), EINVAL);
}

TEST_F(Lab, ARejectBeforeAcceptShowsInAccept) {
  listen();
  const Id id_a = connect();
  const Id id_b = expect(b, Kind::kRequest).id;
  destroy(a, id_a);
  EXPECT_EQ(expect(b, Kind::kRejected).status, 4);  // The peer knew no ID of ours: found by its GUID.
  EXPECT_EQ(accept(id_b), EINVAL);
  destroy(b, id_b);
  expect_nothing_left();
}

TEST_F(Lab, AListenerThatGoesRefusesWhatNobodyHasFetched) {
  const ListenerId listener = listen();
  ConnectRequest request = request_to_b();
  const Id first = connect(request);
  request.params.qpn = 0x12;
  const Id second = connect(request);
  const Id fetched = expect(b, Kind::kRequest).id;
  b.cm->fetched(fetched);
  b.cm->unlisten(listener, world.now());
  settle(b);
  const Event rejected = expect(a, Kind::kRejected);
  EXPECT_EQ(rejected.id, second);
  EXPECT_EQ(rejected.status, 28);
  EXPECT_EQ(accept(fetched), 0);
  EXPECT_EQ(expect(a, Kind::kResponse).id, first);
}

// It is over, but its program has not seen it and cannot destroy it.
TEST_F(Lab, AListenerTakesAlongWhatIsOverAndNobodyHasFetched) {
  const ListenerId listener = listen(1);
  destroy(a, connect());
  EXPECT_EQ(b.cm->size(), 1u);
  connect();
  EXPECT_EQ(b.cm->size(), 1u);  // It still has its place.
  b.cm->unlisten(listener, world.now());
  EXPECT_EQ(b.cm->size(), 0u);
}

TEST_F(Lab, DuplicatesFindTheirConnectionWithoutTheListener) {
  const ListenerId listener = listen();
  connect();
  const std::vector<std::uint8_t> req = sent.back().mad;
  const Id id = expect(b, Kind::kRequest).id;
  b.cm->fetched(id);
  accept(id);
  b.cm->unlisten(listener, world.now());
  inject(b, kGidA, req);
  EXPECT_THAT(names(), ElementsAre("a REQ", "b REP"));
}

TEST_F(Lab, Listeners) {
  const Gid other = Gid::from_v4(10, 77, 0, 99);
  Cm& cm = *b.cm;
  ASSERT_TRUE(cm.listen({.service_id = 1}).ok());
  EXPECT_EQ(cm.listen({.service_id = 1}).error(), EADDRINUSE);
  EXPECT_EQ(cm.listen({.service_id = 1, .takes_v6 = false}).error(), EADDRINUSE);
  EXPECT_TRUE(cm.listen({.service_id = 1, .address = kGidB}).ok());
  EXPECT_EQ(cm.listen({.service_id = 1, .address = kGidB}).error(), EADDRINUSE);
  EXPECT_TRUE(cm.listen({.service_id = 2, .takes_v6 = false}).ok());
  EXPECT_TRUE(cm.listen({.service_id = 2, .takes_v4 = false}).ok());

  const ListenerId wild = *cm.listen({.service_id = kService});
  const ListenerId exact = *cm.listen({.service_id = kService, .address = kGidB});
  connect();
  EXPECT_EQ(expect(b, Kind::kRequest).listener, exact);
  cm.unlisten(exact, world.now());
  ConnectRequest request = request_to_b();
  request.params.qpn = 0x12;
  connect(request);
  EXPECT_EQ(expect(b, Kind::kRequest).listener, wild);
  cm.unlisten(wild, world.now());
  ASSERT_TRUE(cm.listen({.service_id = kService, .address = other}).ok());
  request.params.qpn = 0x13;
  sent.clear();
  connect(request);
  EXPECT_EQ(last("b REJ").as<wire::Rej>().get<wire::Rej::Reason>(), 28);
}

TEST_F(Lab, ConnectChecksWhatItIsGiven) {
  const auto error_of = [this](auto change) {
    ConnectRequest request = request_to_b();
    change(request);
    const auto id = a.cm->connect(request, world.now());
    return id ? 0 : id.error();
  };
  EXPECT_EQ(error_of([](ConnectRequest& r) { r.private_data.size = kReqPrivateData + 1; }), EINVAL);
  EXPECT_EQ(error_of([](ConnectRequest& r) { r.local.address = kGidB; }), EINVAL);
  EXPECT_EQ(error_of([](ConnectRequest& r) { r.remote.address = Gid{}; }), EINVAL);
  EXPECT_EQ(error_of([](ConnectRequest& r) { r.remote.address = Gid::from_v4(224, 0, 0, 1); }), EINVAL);
  EXPECT_EQ(error_of([](ConnectRequest& r) { r.path.mtu = 0; }), EINVAL);
  EXPECT_EQ(error_of([](ConnectRequest& r) { r.path.mtu = 6; }), EINVAL);
  EXPECT_EQ(error_of([](ConnectRequest& r) { r.transport = Transport::kUd; }), EINVAL);
  EXPECT_EQ(a.cm->size(), 0u);
  EXPECT_EQ(error_of([](ConnectRequest& r) { r.private_data.size = kReqPrivateData; }), 0);
}

TEST_F(Lab, UcIsAnotherTransport) {
  ASSERT_TRUE(b.cm->listen({.service_id = kService, .transport = Transport::kUc}).ok());
  const Id rc = connect();
  EXPECT_EQ(expect(a, Kind::kRejected).status, 28);
  destroy(a, rc);
  ConnectRequest request = request_to_b();
  request.transport = Transport::kUc;
  connect(request);
  const Id id = expect(b, Kind::kRequest).id;
  EXPECT_EQ(b.cm->query(id)->transport, Transport::kUc);
}

TEST_F(Lab, IdsBearTheSlotAndDoNotRepeat) {
  CmConfig config;
  config.gids = {kGidA};
  config.slot = 0x7F;
  Cm cm(config);
  std::set<Id> ids;
  for (int i = 0; i < 10'000; ++i) {
    const auto id = cm.connect(request_to_b(), world.now());
    ASSERT_TRUE(id.ok());
    EXPECT_EQ(*id >> 24, 0x7Fu);
    EXPECT_TRUE(ids.insert(*id).second);
    cm.destroy(*id, world.now());
  }
  EXPECT_EQ(cm.size(), 0u);
}

TEST_F(Lab, OneSeedOneBehaviour) {
  const auto ids_of = [this](std::uint64_t seed) {
    CmConfig config;
    config.gids = {kGidA};
    config.seed = seed;
    Cm cm(config);
    std::vector<std::uint32_t> drawn;
    for (int i = 0; i < 3; ++i) {
      const Id id = *cm.connect(request_to_b(), world.now());
      drawn.push_back(id);
      drawn.push_back(cm.query(id)->local_psn);
    }
    return drawn;
  };
  EXPECT_EQ(ids_of(1), ids_of(1));
  EXPECT_NE(ids_of(1), ids_of(2));
}

}  // namespace
}  // namespace uroce::cm::test
