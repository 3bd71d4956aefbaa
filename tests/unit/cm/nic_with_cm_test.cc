// SPDX-License-Identifier: Apache-2.0
// A NIC and its connection manager as one: two of them connect by what the manager says, and move data.
#include "verbs/cm/nic_with_cm.h"

#include <gtest/gtest.h>

#include "engine/faults/faulty.h"
#include "proto/cm/message.h"
#include "tests/support/pair.h"

namespace uroce::cm::test {
namespace {

using namespace std::chrono_literals;
using engine::sim::Verdict;
using proto::cm::Attribute;
using Both = NicWithCm<nic::Nic>;
static_assert(engine::SansIoNic<Both> && engine::SansIoNic<engine::faults::Faulty<Both>>);

constexpr std::uint64_t kService = 0x0106'1B58;

struct End {
  End(const proto::Gid& gid, std::uint64_t base) : side(gid, base, uroce::test::PairOptions{}), cm(config(gid, base)) {}
  static CmConfig config(const proto::Gid& gid, std::uint64_t guid) {
    CmConfig config;
    config.gids = {gid};
    config.guid = config.seed = guid;
    return config;
  }
  /// INIT, RTR, RTS with what the manager knows of `id`.
  void bring_up(Id id) {
    const ConnectionInfo info = *cm.query(id);
    nic::QpAttr at;
    at.access = nic::kLocalWrite | nic::kRemoteWrite;
    at.sgid_index = 1;
    at.path.source = info.local.address;
    at.path.destination = info.remote.address;
    at.path_mtu = info.path.mtu;
    at.timeout = info.ack_timeout;
    at.retry_cnt = info.retry_count;
    at.rnr_retry = info.rnr_retry_count;
    at.max_rd_atomic = info.max_rd_atomic;
    at.max_dest_rd_atomic = info.max_dest_rd_atomic;
    at.sq_psn = proto::Psn{info.remote_psn};
    at.rq_psn = proto::Psn{info.local_psn};
    at.dest_qpn = info.remote_qpn;
    side.bring_up(at);
  }
  ConnectionParams params() const { return {.qpn = side.qp->qpn(), .retry_count = 7, .rnr_retry_count = 7}; }

  uroce::test::Side side;
  Cm cm;
  Both both{side.nic, cm};
  engine::sim::NodeId node = 0;
};

class NicWithCmTest : public testing::Test {
 protected:
  NicWithCmTest() {
    a.node = world.attach(a.both, {a.side.gid});
    b.node = world.attach(b.both, {b.side.gid});
    world.set_filter([this](engine::sim::Packet& packet, Instant) {
      const auto parsed = proto::parse_packet(packet.bytes);
      const auto message = proto::cm::parse_message(*parsed);
      return lose && message && message->attribute() == *lose ? Verdict::drop() : Verdict::pass();
    });
  }
  /// Up to the REP, which A has got.
  void connect() {
    ASSERT_TRUE(b.cm.listen({.service_id = kService}).ok());
    ConnectRequest request;
    request.service_id = kService;
    request.local = {a.side.gid, 40000};
    request.remote = {b.side.gid, 7000};
    request.params = a.params();
    id_a = *a.cm.connect(request, world.now());
    settle(a);
    id_b = b.cm.poll_event().value().id;
    b.bring_up(id_b);
    ASSERT_EQ(b.cm.accept(id_b, b.params(), {}, world.now()), 0);
    settle(b);
    ASSERT_EQ(a.cm.poll_event().value().kind, Event::Kind::kResponse);
    a.bring_up(id_a);
    ASSERT_EQ(a.cm.establish(id_a, world.now()), 0);
    settle(a);
  }
  void send_one() {
    ASSERT_EQ(b.side.nic.post_recv(b.side.qp, {1, std::vector{b.side.sge(0, 64)}}), 0);
    nic::SendWr wr = uroce::test::wr(2, nic::SendOp::kSend);
    const std::vector sges{a.side.sge(0, 64)};
    wr.sges = sges;
    ASSERT_EQ(a.side.nic.post_send(a.side.qp, wr), 0);
    settle(a);
  }
  void settle(End& end) {
    world.kick(end.node);
    world.run_for(1ms);
  }

  engine::sim::World world;
  End a{proto::Gid::from_v4(10, 0, 0, 1), 0x1000'0000}, b{proto::Gid::from_v4(10, 0, 0, 2), 0x2000'0000};
  std::optional<Attribute> lose;
  Id id_a = 0, id_b = 0;
};

TEST_F(NicWithCmTest, ConnectsAndMovesData) {
  connect();
  EXPECT_EQ(b.cm.poll_event().value().kind, Event::Kind::kEstablished);
  send_one();
  ASSERT_EQ(b.side.poll().size(), 1u);
  ASSERT_EQ(a.side.poll().size(), 1u);
  EXPECT_EQ(a.side.nic.counters().unknown_qp + b.side.nic.counters().unknown_qp, 0u);  // It hears nothing of QP 1.
  EXPECT_EQ(a.side.nic.counters().sent_pkts, 1u);
  EXPECT_EQ(a.cm.counters().sent, 2u);
}

TEST_F(NicWithCmTest, TheFirstDataStandsForALostRtu) {
  lose = Attribute::kRtu;
  connect();
  EXPECT_FALSE(b.cm.poll_event());
  send_one();
  EXPECT_EQ(b.cm.poll_event().value().kind, Event::Kind::kEstablished);
  EXPECT_EQ(b.side.poll().size(), 1u);
  world.run_for(10s);
  EXPECT_EQ(b.cm.counters().retries, 0u);
}

TEST_F(NicWithCmTest, DataFromAStrangerDoesNot) {
  lose = Attribute::kRtu;
  connect();
  std::vector<std::uint8_t> frame(proto::kMaxPacketSize);
  const auto deliver = [&](proto::Gid source, proto::Opcode opcode, std::uint32_t psn, bool damaged) {
    proto::Path path;
    path.source = source;
    path.destination = b.side.gid;
    frame.resize(proto::kMaxPacketSize);
    proto::PacketBuilder packet(frame, opcode);
    packet.bth().set<proto::Bth::DestQp>(b.side.qp->qpn()).set<proto::Bth::PsnField>(psn);
    frame.resize(packet.finish(path));
    if (damaged) frame.back() ^= 1;
    b.both.on_datagram({path, frame}, world.now());
    return b.cm.query(id_b)->state;
  };
  const std::uint32_t psn = b.cm.query(id_b)->local_psn;
  const proto::Gid stranger = proto::Gid::from_v4(10, 0, 0, 3);
  EXPECT_EQ(deliver(stranger, proto::Opcode::kRcSendOnly, psn, false), State::kRepSent);
  EXPECT_EQ(deliver(a.side.gid, proto::Opcode::kRcSendOnly, psn + 1, false), State::kRepSent);
  EXPECT_EQ(deliver(a.side.gid, proto::Opcode::kRcSendOnly, psn, true), State::kRepSent);
  EXPECT_EQ(deliver(a.side.gid, proto::Opcode::kRcAcknowledge, psn, false), State::kRepSent);
  EXPECT_EQ(deliver(a.side.gid, proto::Opcode::kRcSendOnly, psn, false), State::kEstablished);
}

TEST_F(NicWithCmTest, TheEarlierDeadlineCounts) {
  EXPECT_FALSE(a.both.next_deadline());
  lose = Attribute::kRep;
  ASSERT_TRUE(b.cm.listen({.service_id = kService}).ok());
  ConnectRequest request;
  request.service_id = kService;
  request.local = {a.side.gid, 40000};
  request.remote = {b.side.gid, 7000};
  const Instant start = world.now();
  ASSERT_TRUE(a.cm.connect(request, start).ok());
  settle(a);
  EXPECT_EQ(a.both.next_deadline(), start + 4608ms);
  EXPECT_TRUE(a.both.identify(a.side.qp->qpn()));
}

TEST_F(NicWithCmTest, FaultsCountMessagesFromTheFirstOne) {
  ConnectRequest request;
  request.service_id = kService;
  request.local = {a.side.gid, 40000};
  request.remote = {b.side.gid, 7000};
  ASSERT_TRUE(a.cm.connect(request, world.now()).ok());
  std::vector<std::uint8_t> frame(proto::kMaxPacketSize);
  const auto sent = a.both.poll_transmit(world.now(), frame);
  ASSERT_TRUE(sent);
  const auto packet = proto::parse_packet(Bytes(frame).first(sent->size));
  ASSERT_TRUE(packet);
  ASSERT_TRUE(a.both.identify(1));
  EXPECT_EQ(packet->psn(), a.both.identify(1)->first_sent);
  EXPECT_EQ(a.both.identify(1)->nth, 0u);
}

TEST_F(NicWithCmTest, WorksBehindFaults) {
  const auto spec = engine::faults::parse_faults("drop=op:ud_send_only#1");  // The REQ: it is sent again.
  ASSERT_TRUE(spec.ok()) << spec.error();
  engine::faults::Faulty<Both> faulty(a.both, *spec, world.now());
  world.detach(a.node);
  a.node = world.attach(faulty, {a.side.gid});
  ASSERT_TRUE(b.cm.listen({.service_id = kService}).ok());
  ConnectRequest request;
  request.service_id = kService;
  request.local = {a.side.gid, 40000};
  request.remote = {b.side.gid, 7000};
  ASSERT_TRUE(a.cm.connect(request, world.now()).ok());
  settle(a);
  EXPECT_FALSE(b.cm.poll_event());
  world.run_for(5s);
  EXPECT_TRUE(b.cm.poll_event());
}

}  // namespace
}  // namespace uroce::cm::test
