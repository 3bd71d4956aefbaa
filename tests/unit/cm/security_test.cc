// SPDX-License-Identifier: Apache-2.0
// What a stranger can and cannot do (docs/security.md).
#include "tests/unit/cm/lab.h"

namespace uroce::cm::test {
namespace {

const Gid kStranger = Gid::from_v4(10, 77, 0, 2);

template <class M>
Mad with_ids(std::uint32_t local_id, std::uint32_t remote_id) {
  Mad mad{};
  wire::MessageBuilder builder(mad, M::kAttribute, 1);
  builder.as<M>().template set<typename M::LocalId>(local_id).template set<typename M::RemoteId>(remote_id);
  return mad;
}
Mad dreq(std::uint32_t local_id, std::uint32_t remote_id, std::uint32_t qpn) {
  Mad mad = with_ids<wire::Dreq>(local_id, remote_id);
  proto::MutView<wire::Dreq>{mad.data() + wire::Mad::kSize}.set<wire::Dreq::RemoteQpn>(qpn);
  return mad;
}

TEST_F(Lab, AConnectionListensToItsPeerOnly) {
  listen();
  const auto [id_a, id_b] = established();
  inject(b, kStranger, dreq(id_a, id_b, kPassive.qpn));
  inject(b, kStranger, with_ids<wire::Rej>(id_a, id_b));
  EXPECT_EQ(b.cm->counters().wrong_source, 2u);
  inject(b, kGidA, dreq(id_a, id_b, kPassive.qpn + 1));  // Right IDs, wrong QP.
  inject(b, kGidA, with_ids<wire::Rej>(id_a + 1, id_b));
  inject(b, kGidA, with_ids<wire::Drep>(id_a, id_b));
  inject(b, kGidA, with_ids<wire::Rtu>(id_a, id_b));
  EXPECT_EQ(state(b, id_b), State::kEstablished);
  EXPECT_THAT(b.events, IsEmpty());
  EXPECT_THAT(names(), IsEmpty());
  inject(b, kGidA, dreq(id_a + 1, id_b, kPassive.qpn));
  EXPECT_THAT(names(), ElementsAre("b DREP"));
  EXPECT_EQ(state(b, id_b), State::kEstablished);
}

TEST_F(KernelLab, AKernelListensToAnybody) {
  listen();
  const auto [id_a, id_b] = established();
  inject(b, kStranger, dreq(id_a, id_b, kPassive.qpn));
  expect(b, Kind::kDisconnected);
}

TEST_F(Lab, ARequestListensToItsPeerOnly) {
  listen();
  const Id id_a = connect();
  const Id id_b = expect(b, Kind::kRequest).id;
  inject(a, kStranger, with_ids<wire::Rej>(0, id_a));
  inject(a, kStranger, with_ids<wire::Rep>(9, id_a));
  inject(a, kStranger, with_ids<wire::Mra>(9, id_a));
  EXPECT_EQ(a.cm->counters().wrong_source, 3u);
  EXPECT_EQ(state(a, id_a), State::kReqSent);
  accept(id_b);
  inject(b, kStranger, with_ids<wire::Rtu>(id_a, id_b));
  inject(b, kGidA, with_ids<wire::Rtu>(id_a + 1, id_b));
  EXPECT_EQ(state(b, id_b), State::kRepSent);
}

TEST_F(Lab, MessagesInTheWrongState) {
  listen();
  const Id id_a = connect();
  const Id id_b = expect(b, Kind::kRequest).id;
  inject(b, kGidA, with_ids<wire::Rtu>(id_a, id_b));
  inject(b, kGidA, with_ids<wire::Rep>(id_a, id_b));
  inject(b, kGidA, with_ids<wire::Drep>(id_a, id_b));
  inject(b, kGidA, dreq(id_a, id_b, 0));
  EXPECT_EQ(state(b, id_b), State::kReqReceived);
  inject(a, kGidB, with_ids<wire::Rtu>(id_b, id_a));
  inject(a, kGidB, with_ids<wire::Drep>(0, id_a));
  EXPECT_EQ(state(a, id_a), State::kReqSent);
  inject(a, kGidB, with_ids<wire::Lap>(id_b, id_a));
  inject(a, kGidB, with_ids<wire::Apr>(id_b, id_a));
  EXPECT_EQ(state(a, id_a), State::kReqSent);
  EXPECT_THAT(a.events, IsEmpty());
  EXPECT_THAT(b.events, IsEmpty());
}

TEST_F(Lab, KeysAndShapes) {
  listen();
  connect();
  b.events.clear();
  std::vector<std::uint8_t> req = sent.back().mad;
  req[wire::Mad::kSize] ^= 1;       // Another ID ...
  req[wire::Mad::kSize + 33] ^= 1;  // ... and QPN.
  inject(b, kGidA, req, 0x11111111);
  EXPECT_EQ(b.cm->counters().wrong_key, 1u);
  for (const std::size_t size : {0u, 24u, 100u, 252u, 260u, 1024u}) {
    std::vector<std::uint8_t> other = req;
    other.resize(size);
    inject(b, kGidA, other);
  }
  EXPECT_EQ(b.cm->counters().malformed, 6u);
  EXPECT_THAT(b.events, IsEmpty());
  inject(b, kGidA, req);
  expect(b, Kind::kRequest);
}

/// A request of A's, changed.
class ChangedRequest : public Lab {
 protected:
  ChangedRequest() {
    listen();
    connect();
    req = sent.back().mad;
    sent.clear();
    destroy(b, expect(b, Kind::kRequest).id);
    b.cm->unlisten(1, world.now());
    listen();
    sent.clear();
  }
  /// The reason that B rejects it for; nothing: it asks its program.
  template <class F>
  std::optional<int> reason_with(typename F::Value value) {
    std::vector<std::uint8_t> changed = req;
    F::store(changed.data() + wire::Mad::kSize, value);
    return reason(changed);
  }
  std::optional<int> reason_with_byte(std::size_t offset, std::uint8_t value) {
    std::vector<std::uint8_t> changed = req;
    changed[wire::Mad::kSize + wire::Req::kSize + offset] = value;
    return reason(changed);
  }
  std::optional<int> reason(Bytes mad) {
    sent.clear();
    inject(b, kGidA, mad);
    if (!b.events.empty()) {
      b.cm->destroy(b.events.front().id, world.now());
      b.events.clear();
      settle(b);
      return std::nullopt;
    }
    return last("b REJ").as<wire::Rej>().get<wire::Rej::Reason>();
  }
  std::vector<std::uint8_t> req;
};

TEST_F(ChangedRequest, IsRefusedForAReason) {
  using wire::Req;
  EXPECT_EQ(reason(req), std::nullopt);
  EXPECT_EQ(reason_with<Req::ServiceId>(kService + 1), 8);
  EXPECT_EQ(reason_with<Req::ServiceId>(kUdService), 8);
  EXPECT_EQ(reason_with<Req::PKey>(0x7FFF), std::nullopt);
  EXPECT_EQ(reason_with<Req::PKey>(0x1234), 12);
  EXPECT_EQ(reason_with<Req::RemoteGidLow>(1), 12);
  EXPECT_EQ(reason_with<Req::LocalGidLow>(1), 12);
  EXPECT_EQ(reason_with<Req::AltLocalLid>(1), 18);
  EXPECT_EQ(reason_with<Req::AltLocalGidLow>(1), 18);
  for (std::uint8_t mtu = 0; mtu < 16; ++mtu) {
    const bool good = mtu >= 1 && mtu <= 5;
    EXPECT_EQ(reason_with<Req::PathMtu>(mtu), good ? std::nullopt : std::optional(26)) << int{mtu};
  }
  for (std::uint8_t transport = 1; transport < 4; ++transport) {
    EXPECT_EQ(reason_with<Req::TransportType>(transport), 28);
  }
  EXPECT_EQ(reason_with<Req::ExtendedTransport>(1), 28);
  EXPECT_EQ(reason_with_byte(0, 1), 28);     // Version of the CMA header
  EXPECT_EQ(reason_with_byte(1, 0x50), 28);  // IP version
  EXPECT_EQ(reason_with_byte(35, 99), 28);   // Destination
  EXPECT_EQ(reason_with_byte(19, 99), 12);   // Source: another than the packet's
  EXPECT_EQ(b.cm->counters().wrong_source, 2u);
}

TEST_F(ChangedRequest, SourcesNeedNotBeChecked) {
  CmConfig config = b.cm->config();
  config.check_source = false;
  b.cm.emplace(config);
  listen();
  EXPECT_EQ(reason_with<wire::Req::LocalGidLow>(1), std::nullopt);
  EXPECT_EQ(reason_with_byte(19, 99), std::nullopt);
  EXPECT_EQ(reason_with_byte(16, 224), 28);  // Multicast all the same.
}

TEST_F(Lab, AStrangersStaleQpnDoesNotCutAConnection) {
  listen();
  connect();
  std::vector<std::uint8_t> req = sent.back().mad;
  const Id id = expect(b, Kind::kRequest).id;
  accept(id);
  establish(expect(a, Kind::kResponse).id);
  expect(b, Kind::kEstablished);
  // The same GUID and QPN, another comm ID, another host that says truly where it is.
  req[wire::Mad::kSize] ^= 1;
  wire::set_gid<wire::Req::LocalGidHigh, wire::Req::LocalGidLow>(
      proto::MutView<wire::Req>{req.data() + wire::Mad::kSize}, kStranger);
  wire::build_addresses({kStranger, kGidB, 1}, MutBytes(req).subspan(wire::Mad::kSize + wire::Req::kSize));
  sent.clear();
  inject(b, kStranger, req);
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(state(b, id), State::kEstablished);
  expect(b, Kind::kRequest);
}

TEST_F(Lab, AFloodOfRequestsIsBounded) {
  listen();
  connect();
  const std::vector<std::uint8_t> req = sent.back().mad;
  const auto flood = [&](const Gid& source, std::uint32_t count) {
    std::vector<std::uint8_t> mad = req;
    const proto::MutView<wire::Req> fields{mad.data() + wire::Mad::kSize};
    wire::set_gid<wire::Req::LocalGidHigh, wire::Req::LocalGidLow>(fields, source);
    wire::build_addresses({source, kGidB, 1}, MutBytes(mad).subspan(wire::Mad::kSize + wire::Req::kSize));
    for (std::uint32_t i = 0; i < count; ++i) {
      fields.set<wire::Req::LocalId>(0x5000'0000 + i).set<wire::Req::Qpn>(0x5000 + i);
      inject(b, source, mad);
    }
  };
  flood(kStranger, Cm::kMaxHalfOpenPerSource + 10);
  EXPECT_EQ(b.cm->size(), 1u + Cm::kMaxHalfOpenPerSource);
  for (std::uint8_t host = 20; host < 30; ++host) flood(Gid::from_v4(10, 77, 0, host), 200);
  EXPECT_EQ(b.cm->size(), Cm::kMaxBacklog);
  EXPECT_THAT(times_of("b REJ"), IsEmpty());
  // Fetched ones make room in the backlog, but not more of them than kMaxHalfOpen are kept.
  for (const Event& event : b.events) b.cm->fetched(event.id);
  for (std::uint8_t host = 30; host < 60; ++host) {
    flood(Gid::from_v4(10, 77, 0, host), 200);
    for (const Event& event : b.events) b.cm->fetched(event.id);
  }
  EXPECT_EQ(b.cm->size(), Cm::kMaxHalfOpen);
  run(4s);  // Those that wait for a place are dropped.
  for (const Event& event : b.events) b.cm->destroy(event.id, world.now());
  settle(b);
  EXPECT_EQ(b.cm->size(), 0u);
}

TEST_F(Lab, StrangersGetAThousandAnswersASecondThoseOfThisHostAll) {
  const auto answers_to = [&](const Gid& stranger, int messages, Instant now) {
    proto::Path path;
    path.source = stranger;
    path.destination = kGidB;
    std::vector<std::uint8_t> frame(proto::kMaxPacketSize), out(proto::kMaxPacketSize);
    frame.resize(wire::build_packet(dreq(1, 2, 3), proto::Psn{0}, path, frame));
    std::size_t answers = 0;
    for (int i = 0; i < messages; ++i) {
      b.cm->on_datagram({path, frame}, now);
      while (b.cm->poll_transmit(now, out)) ++answers;
    }
    return answers;
  };
  EXPECT_EQ(answers_to(kStranger, 5000, world.now()), Cm::kStrangerAnswersPerSecond);
  EXPECT_EQ(b.cm->counters().suppressed, 4000u);
  EXPECT_EQ(answers_to(Gid::from_v4(127, 0, 0, 5), 5000, world.now()), 5000u);
  EXPECT_EQ(answers_to(kStranger, 1, world.now() + 1s), 1u);
}

}  // namespace
}  // namespace uroce::cm::test
