// SPDX-License-Identifier: Apache-2.0
// Service ID resolution, for UD.
#include "tests/unit/cm/lab.h"

namespace uroce::cm::test {
namespace {

class SidrLab : public Lab {
 protected:
  explicit SidrLab(bool as_kernel = false) : Lab(as_kernel) {
    listener = *b.cm->listen({.service_id = kUdService, .transport = Transport::kUd});
  }
  Id ask(std::uint64_t service_id = kUdService) {
    SidrRequest request;
    request.service_id = service_id;
    request.local = {kGidA, 40000};
    request.remote = {kGidB, 7000};
    request.private_data = data({1, 2});
    const Id id = *a.cm->sidr_request(request, world.now());
    settle(a);
    return id;
  }
  Errno reply(Id id, const SidrReply& what) {
    const Errno error = b.cm->sidr_reply(id, what, world.now());
    settle(b);
    return error;
  }
  ListenerId listener = 0;
};
class KernelSidrLab : public SidrLab {
 protected:
  KernelSidrLab() : SidrLab(true) {}
};

TEST_F(SidrLab, TellsQpnAndQkey) {
  const Id id_a = ask();
  const Event request = expect(b, Kind::kRequest);
  EXPECT_EQ(request.listener, listener);
  EXPECT_EQ(request.private_data.size, kSidrReqPrivateData);
  EXPECT_THAT(Bytes(request.private_data.bytes).first(3), ElementsAre(1, 2, 0));
  const auto info = b.cm->query(request.id);
  EXPECT_EQ(info->local, (Endpoint{kGidB, 7000}));
  EXPECT_EQ(info->remote, (Endpoint{kGidA, 40000}));
  EXPECT_EQ(reply(request.id, {.qpn = 0x33, .qkey = 0x1234567, .private_data = data({5})}), 0);
  const Event answer = expect(a, Kind::kEstablished);
  EXPECT_EQ(answer.datagram.qpn, 0x33u);
  EXPECT_EQ(answer.datagram.qkey, 0x1234567u);
  EXPECT_EQ(answer.private_data.size, kSidrRepPrivateData);
  EXPECT_EQ(answer.private_data.bytes[0], 5);
  EXPECT_EQ(reply(request.id, {}), EINVAL);
  disconnect(a, id_a);  // Nothing to do, and no error.
  destroy(a, id_a);
  destroy(b, request.id);
  EXPECT_THAT(names(), ElementsAre("a SIDR_REQ", "b SIDR_REP"));
  expect_nothing_left();
}

TEST_F(SidrLab, NobodyIsThereToRefuse) {
  lose("a SIDR_REQ", 1, 100);
  a.deserted = kGidB;
  ask();
  run(10s);
  const Event refused = expect(a, Kind::kUnreachable);
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.private_data.size, kSidrRepPrivateData);
}

TEST_F(SidrLab, Refusals) {
  ask(kUdService + 1);
  EXPECT_EQ(expect(a, Kind::kUnreachable).status, 1);
  ask();
  reply(expect(b, Kind::kRequest).id, {.status = SidrStatus::kReject, .qpn = 5, .qkey = 6, .private_data = data({7})});
  const Event refused = expect(a, Kind::kUnreachable);
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.private_data.bytes[0], 7);
  EXPECT_EQ(last("b SIDR_REP").as<wire::SidrRep>().get<wire::SidrRep::QKey>(), 0u);
  ask();
  destroy(b, expect(b, Kind::kRequest).id);
  EXPECT_EQ(expect(a, Kind::kUnreachable).status, 2);
  // A service for connections does not serve datagrams.
  listen();
  ask(kService);
  EXPECT_EQ(expect(a, Kind::kUnreachable).status, 1);
}

// ib_send_bw -c UD -R: the first connection is to the TCP port of the same number.
TEST_F(SidrLab, ARequestWaitsForTheNextListenerOfThePort) {
  b.cm->unlisten(listener, world.now());
  world.run_for(4s);
  b.cm->unlisten(listen(), world.now());
  ask();
  world.run_for(900ms);
  EXPECT_THAT(names(), ElementsAre("a SIDR_REQ"));
  listener = *b.cm->listen({.service_id = kUdService, .transport = Transport::kUd});
  settle(b);
  expect(b, Kind::kRequest);
}

TEST_F(SidrLab, UnansweredRequestsEnd) {
  lose("a SIDR_REQ", 1, 100);
  ask();
  run(70s);
  const auto times = times_of("a SIDR_REQ");
  ASSERT_EQ(times.size(), 16u);
  EXPECT_EQ(times[15], 15 * 4096ms);
  EXPECT_EQ(expect(a, Kind::kUnreachable).status, -ETIMEDOUT);
}

TEST_F(SidrLab, ALostAnswerIsNoSecondRequest) {
  lose("b SIDR_REP");
  ask();
  reply(expect(b, Kind::kRequest).id, {.qpn = 0x33});
  run(5s);
  EXPECT_THAT(b.events, IsEmpty());
  EXPECT_EQ(expect(a, Kind::kEstablished).datagram.qpn, 0x33u);
  run(20s);
  EXPECT_FALSE(b.cm->next_deadline());  // Forgotten.
}

TEST_F(KernelSidrLab, ALostAnswerIsASecondRequest) {
  lose("b SIDR_REP");
  ask();
  reply(expect(b, Kind::kRequest).id, {.qpn = 0x33});
  run(5s);
  expect(b, Kind::kRequest);
}

TEST_F(SidrLab, ADuplicateWhileTheProgramThinks) {
  duplicate("a SIDR_REQ");
  ask();
  run(10ms);
  expect(b, Kind::kRequest);
  EXPECT_THAT(b.events, IsEmpty());
  EXPECT_EQ(b.cm->counters().duplicates, 1u);
}

TEST_F(SidrLab, RequestsOfTwoHostsWithOneId) {
  ask();
  std::vector<std::uint8_t> mad = sent.back().mad;
  const Gid other = Gid::from_v4(10, 77, 0, 2);
  wire::build_addresses({other, kGidB, 40000}, MutBytes(mad).subspan(wire::Mad::kSize + wire::SidrReq::kSize));
  inject(b, other, mad);
  EXPECT_EQ(b.events.size(), 2u);
}

TEST_F(SidrLab, TheBacklogCounts) {
  b.cm->unlisten(listener, world.now());
  listener = *b.cm->listen({.service_id = kUdService, .transport = Transport::kUd, .backlog = 1});
  ask();
  ask();
  EXPECT_EQ(b.events.size(), 1u);
  b.cm->unlisten(listener, world.now());
  settle(b);
  EXPECT_EQ(expect(a, Kind::kUnreachable).status, 2);
}

TEST_F(SidrLab, RequestsWaitForAPlaceInTheBacklog) {
  b.cm->unlisten(listener, world.now());
  listener = *b.cm->listen({.service_id = kUdService, .transport = Transport::kUd, .backlog = 1});
  ask();
  ask();
  b.cm->fetched(b.events.back().id);
  settle(b);
  EXPECT_EQ(b.events.size(), 2u);
  EXPECT_EQ(times_of("a SIDR_REQ").size(), 2u);
}

}  // namespace
}  // namespace uroce::cm::test
