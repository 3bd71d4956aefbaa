// SPDX-License-Identifier: Apache-2.0
// Which packets are hit: as many as asked for, the same ones for the same seed, whatever other QPs do.
#include "engine/faults/injector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "proto/cm/message.h"
#include "proto/icrc.h"
#include "proto/packet.h"

namespace uroce::test {
namespace {

using namespace engine::faults;
using proto::Opcode;

FaultSpec spec_of(std::string_view text) {
  auto spec = parse_faults(text);
  EXPECT_TRUE(spec) << spec.error();
  return *spec;
}

std::vector<std::uint8_t> packet(std::uint32_t qpn, std::uint32_t psn, Opcode opcode = Opcode::kRcSendOnly) {
  std::vector<std::uint8_t> bytes(proto::kMaxPacketSize);
  proto::PacketBuilder builder(bytes, opcode);
  builder.bth().set<proto::Bth::DestQp>(qpn).set<proto::Bth::PsnField>(psn);
  if (proto::info(opcode).has_payload) builder.payload(16);
  bytes.resize(builder.finish({}));
  return bytes;
}

/// The PSNs of `count` packets for `qpn` that are dropped.
std::vector<std::uint32_t> dropped(Injector& injector, std::uint32_t qpn, std::uint32_t count) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t psn = 0; psn < count; ++psn) {
    if (injector.decide(Direction::kSent, packet(qpn, psn)).drop) out.push_back(psn);
  }
  return out;
}

TEST(FaultInjector, HitsAboutAsManyAsAskedFor) {
  Injector injector(spec_of("loss=5%"));
  const std::size_t hit = dropped(injector, 0x11, 20000).size();
  EXPECT_GT(hit, 850u);
  EXPECT_LT(hit, 1150u);
  EXPECT_EQ(injector.counters().of(Kind::kDrop), hit);
}

TEST(FaultInjector, TheSeedDecidesAndOtherQpsDoNot) {
  Injector alone(spec_of("seed=3,loss=5%")), among(spec_of("seed=3,loss=5%")), other(spec_of("seed=4,loss=5%"));
  const auto expected = dropped(alone, 0x11, 500);
  std::vector<std::uint32_t> got;
  for (std::uint32_t psn = 0; psn < 500; ++psn) {
    among.decide(Direction::kSent, packet(0x12, psn * 3));
    if (among.decide(Direction::kSent, packet(0x11, psn)).drop) got.push_back(psn);
    among.decide(Direction::kReceived, packet(0x11, psn));
  }
  EXPECT_EQ(got, expected);
  EXPECT_NE(dropped(other, 0x11, 500), expected);
}

TEST(FaultInjector, APacketSentAgainIsJudgedAnew) {
  Injector injector(spec_of("loss=50%"));
  int passed = 0;
  for (std::uint32_t psn = 0; psn < 200; ++psn) {
    for (int attempt = 0; attempt < 40; ++attempt) {
      if (injector.decide(Direction::kSent, packet(0x11, psn)).drop) continue;
      ++passed;
      break;
    }
  }
  EXPECT_EQ(passed, 200);
}

TEST(FaultInjector, SelectsMessagesOfConnectionManagement) {
  using proto::cm::Attribute;
  const auto message = [](Attribute attribute) {
    std::vector<std::uint8_t> mad(proto::cm::kMadSize), bytes(proto::kMaxPacketSize);
    static_cast<void>(proto::cm::MessageBuilder(mad, attribute, 1));
    bytes.resize(proto::cm::build_packet(mad, proto::Psn{0}, {}, bytes));
    return bytes;
  };
  Injector injector(spec_of("drop=op:cm_rep#2"));
  for (const bool dropped : {false, true, false}) {
    EXPECT_FALSE(injector.decide(Direction::kSent, message(Attribute::kReq)).drop);
    EXPECT_EQ(injector.decide(Direction::kSent, message(Attribute::kRep)).drop, dropped);
    EXPECT_FALSE(injector.decide(Direction::kReceived, message(Attribute::kRep)).drop);
    EXPECT_FALSE(injector.decide(Direction::kSent, packet(0x11, 5, Opcode::kUdSendOnly)).drop);
  }
}

TEST(FaultInjector, SelectsByPsnQpOperationAndNumber) {
  Injector injector(spec_of("drop=psn:7@qp:0x11@op:send#2..3"));
  const auto is_dropped = [&](std::uint32_t qpn, std::uint32_t psn, Opcode opcode = Opcode::kRcSendOnly) {
    return injector.decide(Direction::kSent, packet(qpn, psn, opcode)).drop;
  };
  EXPECT_FALSE(is_dropped(0x11, 7));  // The first one.
  EXPECT_FALSE(is_dropped(0x12, 7));
  EXPECT_FALSE(is_dropped(0x11, 8));
  EXPECT_FALSE(is_dropped(0x11, 7, Opcode::kRcWriteMiddle));
  EXPECT_FALSE(injector.decide(Direction::kReceived, packet(0x11, 7)).drop);
  EXPECT_TRUE(is_dropped(0x11, 7));
  EXPECT_TRUE(is_dropped(0x11, 7));
  EXPECT_FALSE(is_dropped(0x11, 7));
  EXPECT_EQ(injector.counters().of(Kind::kDrop), 2u);
}

TEST(FaultInjector, ARangeOfPsnsMayWrapAround) {
  Injector injector(spec_of("drop=psn:0xfffffe..1"));
  std::vector<std::uint32_t> hit;
  for (const std::uint32_t psn : {0xfffffdu, 0xfffffeu, 0xffffffu, 0u, 1u, 2u, 0x800000u}) {
    if (injector.decide(Direction::kSent, packet(0x11, psn)).drop) hit.push_back(psn);
  }
  EXPECT_EQ(hit, (std::vector<std::uint32_t>{0xfffffe, 0xffffff, 0, 1}));
}

TEST(FaultInjector, PsnsCountFromTheFirstOneOfTheQp) {
  const auto identify = [](std::uint32_t qpn) -> std::optional<proto::QpIdentity> {
    if (qpn != 0x11) return std::nullopt;
    return proto::QpIdentity{.nth = 1, .first_sent = proto::Psn(0xffffff), .first_received = proto::Psn(100)};
  };
  Injector injector(spec_of("drop=psn:+1..2,rx.drop=psn:+0"), identify);
  const auto is_dropped = [&](Direction direction, std::uint32_t qpn, std::uint32_t psn, Opcode opcode) {
    return injector.decide(direction, packet(qpn, psn, opcode), {.qpn = 0x11}).drop;
  };
  const auto request = Opcode::kRcSendOnly, response = Opcode::kRcAcknowledge;
  for (int time = 0; time < 2; ++time) {  // The same PSN is hit each time.
    EXPECT_FALSE(is_dropped(Direction::kSent, 0x99, 0xffffff, request));
    EXPECT_TRUE(is_dropped(Direction::kSent, 0x99, 0, request));
    EXPECT_TRUE(is_dropped(Direction::kSent, 0x99, 1, request));
    EXPECT_FALSE(is_dropped(Direction::kSent, 0x99, 2, request));
    EXPECT_TRUE(is_dropped(Direction::kSent, 0x99, 101, response));
    EXPECT_TRUE(is_dropped(Direction::kReceived, 0x11, 100, request));
    EXPECT_TRUE(is_dropped(Direction::kReceived, 0x11, 0xffffff, response));
    EXPECT_FALSE(is_dropped(Direction::kReceived, 0x11, 0, response));
    EXPECT_FALSE(is_dropped(Direction::kReceived, 0x12, 0, request));  // No QP of ours: it has no first PSN.
  }
}

TEST(FaultInjector, RefusalsThatAreAddedDoNotReplaceThoseBefore) {
  Injector injector(spec_of("rnr=100%"));
  injector.add(spec_of("rnr=1%"));
  for (std::uint32_t psn = 0; psn < 100; ++psn) EXPECT_TRUE(injector.refuses_receive(0x11, proto::Psn(psn))) << psn;
}

TEST(FaultInjector, DelaysLieInTheRange) {
  using namespace std::chrono_literals;
  Injector injector(spec_of("delay=50us..2ms"));
  Duration least = 1h, most{};
  for (std::uint32_t psn = 0; psn < 1000; ++psn) {
    const Duration delay = injector.decide(Direction::kSent, packet(0x11, psn)).delay;
    least = std::min(least, delay);
    most = std::max(most, delay);
  }
  EXPECT_GE(least, 50us);
  EXPECT_LT(least, 100us);
  EXPECT_LE(most, 2ms);
  EXPECT_GT(most, 1900us);
}

TEST(FaultInjector, NoCorruptionEscapesTheIcrc) {
  const proto::Path path;
  const std::vector<std::uint8_t> good = packet(0x11, 5);
  ASSERT_TRUE(proto::check_icrc(path, good).ok);
  std::set<std::size_t> hit;
  for (std::uint64_t bits = 0; bits < 2000; ++bits) {
    std::vector<std::uint8_t> bytes = good;
    corrupt(bytes, bits * 0x9E3779B97F4A7C15u);
    const proto::IcrcCheck check = proto::check_icrc(path, bytes);
    EXPECT_FALSE(check.ok && check.ip_id == 0) << bits;
    for (std::size_t i = 0; i < good.size(); ++i) {
      if (bytes[i] != good[i]) hit.insert(i);
    }
  }
  EXPECT_EQ(hit.size(), good.size() - 1) << "any byte but the one that the ICRC leaves out";
}

TEST(FaultInjector, ManyPacketsThatComeAgainAreEachJudgedAnew) {
  // More than are remembered one by one, over and over, as go-back-N sends them: each must get through in the end.
  Injector injector(spec_of("loss=50%"));
  constexpr std::uint32_t kPackets = 6000;
  std::vector<bool> passed(kPackets);
  for (int round = 0; round < 40; ++round) {
    for (std::uint32_t psn = 0; psn < kPackets; ++psn) {
      if (!injector.decide(Direction::kSent, packet(0x11, psn)).drop) passed[psn] = true;
    }
  }
  EXPECT_EQ(std::count(passed.begin(), passed.end(), false), 0);
}

TEST(FaultInjector, AFaultOfAnotherKindChangesNothing) {
  Injector alone(spec_of("loss=5%,loss=op:ack")), more(spec_of("dup=3%,loss=5%,ecn=1%,loss=op:ack"));
  EXPECT_EQ(dropped(alone, 0x11, 500), dropped(more, 0x11, 500));
}

/// A NIC whose QPs were given these numbers, in this order, with these first PSNs.
struct Numbers {
  std::uint32_t qpn, first_sent, first_received;
};
Identify nic_with(std::vector<Numbers> qps) {
  return [qps = std::move(qps)](std::uint32_t qpn) -> std::optional<proto::QpIdentity> {
    for (std::uint32_t i = 0; i < qps.size(); ++i) {
      if (qps[i].qpn != qpn) continue;
      return proto::QpIdentity{.nth = i + 1,
                               .life = 1,
                               .first_sent = proto::Psn(qps[i].first_sent),
                               .first_received = proto::Psn(qps[i].first_received),
                               .mtu = 1024};
    }
    return std::nullopt;
  };
}

/// What happens to the packets of one QP, by their distance from the first PSN.
std::vector<std::string> fates(Injector& injector, Direction direction, const Numbers& qp, std::uint32_t peer_qpn) {
  std::vector<std::string> list;
  for (std::uint32_t i = 0; i < 500; ++i) {
    const bool sent = direction == Direction::kSent;
    const auto request = packet(sent ? peer_qpn : qp.qpn, (sent ? qp.first_sent : qp.first_received) + i);
    const auto ack =
        packet(sent ? peer_qpn : qp.qpn, (sent ? qp.first_received : qp.first_sent) + i, Opcode::kRcAcknowledge);
    list.push_back(to_comment(injector.decide(direction, request, {.qpn = sent ? qp.qpn : 0})));
    list.push_back(to_comment(injector.decide(direction, ack, {.qpn = sent ? qp.qpn : 0})));
  }
  return list;
}

constexpr std::string_view kFire =
    "loss=5%,dup=2%,reorder=5%:4,corrupt=1%,rx.loss=5%,rx.dup=2%,rx.reorder=5%:4,rx.corrupt=1%";

TEST(FaultInjector, NumbersThatWereDrawnDoNotMatterAndTheOrderOfTheQpsDoes) {
  const std::vector<Numbers> once = {{0x11, 0, 0}, {0x12, 5, 7}}, again = {{0x8123, 0xFFFF80, 77}, {0x99, 1, 0xFFFFFF}};
  Injector one(spec_of(kFire), nic_with(once)), other(spec_of(kFire), nic_with(again));
  for (const Direction direction : {Direction::kSent, Direction::kReceived}) {
    const auto first = fates(one, direction, once[0], 0x200), second = fates(one, direction, once[1], 0x201);
    EXPECT_EQ(first, fates(other, direction, again[0], 0x3FF));
    EXPECT_EQ(second, fates(other, direction, again[1], 0x15));
    EXPECT_NE(first, second);
  }
}

TEST(FaultInjector, HowOftenPacketsAreSentThoughTheyHaveArrivedDoesNotMatter) {
  // A sender that goes back over `reach` packets each time that one is lost, as timing will have it.
  const auto faults = [](std::uint32_t reach) {
    Injector injector(spec_of(kFire), nic_with({{0x11, 0, 0}}));
    std::multiset<std::string> list;
    std::vector<bool> through(2000 + reach);
    for (std::uint32_t next = 0; next < 2000;) {
      for (std::uint32_t psn = next; psn < next + reach; ++psn) {
        const Fate fate = injector.decide(Direction::kSent, packet(0x500, psn), {.qpn = 0x11});
        if (psn < 2000 && !fate.causes.empty()) list.insert(std::to_string(psn) + to_comment(fate));
        if (!fate.drop && !fate.corrupt) through[psn] = true;
      }
      while (next < 2000 && through[next]) ++next;
    }
    return list;
  };
  const auto expected = faults(1);
  EXPECT_GT(expected.size(), 200u);
  for (const std::uint32_t reach : {2u, 10u, 100u}) EXPECT_EQ(faults(reach), expected) << reach;
}

std::vector<std::uint8_t> read_request(std::uint32_t psn, std::uint32_t bytes) {
  std::vector<std::uint8_t> request = packet(0x500, psn, Opcode::kRcReadRequest);
  proto::PacketBuilder builder(request, Opcode::kRcReadRequest);
  builder.bth().set<proto::Bth::DestQp>(0x500).set<proto::Bth::PsnField>(psn);
  builder.header<proto::Reth>().set<proto::Reth::DmaLength>(bytes);
  builder.finish({});
  return request;
}

TEST(FaultInjector, AReadThatIsAskedForAgainFromItsMiddleIsNotStruckAgain) {
  Injector injector(spec_of("dup=50%"), nic_with({{0x11, 0, 0}}));
  for (std::uint32_t psn = 0; psn < 800; psn += 8) {
    injector.decide(Direction::kSent, read_request(psn, 8 * 1024 - 100), {.qpn = 0x11});
    const Fate rest = injector.decide(Direction::kSent, read_request(psn + 3, 5 * 1024 - 100), {.qpn = 0x11});
    EXPECT_FALSE(rest.duplicate &&
                 injector.decide(Direction::kSent, read_request(psn, 8 * 1024 - 100), {.qpn = 0x11}).duplicate)
        << psn;
  }
  EXPECT_LT(injector.counters().of(Kind::kDuplicate), 70u) << "each READ once, not each of its requests";
}

TEST(FaultInjector, AQpIsNamedByItsPlaceInTheOrderOfCreation) {
  const auto nic = nic_with({{0x8123, 0, 0}, {0x99, 0, 0}});
  Injector injector(spec_of("drop=qp:1st,rx.drop=qp:2nd,drop=qp:0x501,wr=qp:2nd#3:RETRY_EXC_ERR"), nic);
  EXPECT_TRUE(injector.decide(Direction::kSent, packet(0x500, 1), {.qpn = 0x8123}).drop);
  EXPECT_FALSE(injector.decide(Direction::kSent, packet(0x500, 1), {.qpn = 0x99}).drop);
  EXPECT_TRUE(injector.decide(Direction::kSent, packet(0x501, 1), {.qpn = 0x99}).drop) << "a number: whom it is for";
  EXPECT_TRUE(injector.decide(Direction::kReceived, packet(0x99, 1)).drop);
  EXPECT_FALSE(injector.decide(Direction::kReceived, packet(0x8123, 1)).drop);
  EXPECT_FALSE(injector.decide(Direction::kReceived, packet(0x7777, 1)).drop);
  EXPECT_FALSE(injector.fails_send(0x8123, 3).has_value());
  EXPECT_TRUE(injector.fails_send(0x99, 3).has_value());
}

TEST(FaultInjector, WhatStrangersSendTakesBoundedMemory) {
  Injector injector(spec_of("rx.loss=60%,rnr=50%"), nic_with({{0x8123, 0, 0}, {0x99, 0, 0}}));
  std::uint64_t random = 1;
  for (int i = 0; i < 300'000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const auto qpn = i % 3 == 0 ? 0x99 : static_cast<std::uint32_t>(random >> 40);
    auto bytes =
        packet(qpn, static_cast<std::uint32_t>(random >> 16), i % 2 == 0 ? Opcode::kUdSendOnly : Opcode::kRcSendOnly);
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&random), 4, bytes.begin() + 16);  // DETH: who it is from.
    injector.decide(Direction::kReceived, bytes,
                    {.address = proto::Gid::from_v4(10, 0, 0, static_cast<std::uint8_t>(i))});
    injector.refuses_receive(0x99, proto::Psn(static_cast<std::uint32_t>(random >> 8)));
  }
  // 512 in each stream: of either QP and of nobody, of 64 peers each.
  EXPECT_LE(injector.remembered(), 512u * 3 * (64 + 4));
  std::uint32_t passed = 0;
  for (std::uint32_t psn = 0; psn < 100; ++psn) {
    for (int i = 0; i < 100; ++i) {
      if (injector.decide(Direction::kReceived, packet(0x99, psn)).drop) continue;
      ++passed;
      break;
    }
  }
  EXPECT_EQ(passed, 100u) << "and nothing is lost for ever because of them";
}

TEST(FaultInjector, ManySendersOfDatagramsTakeBoundedMemory) {
  Injector injector(spec_of("rx.loss=99%"), nic_with({{0x99, 0, 0}}));
  const auto datagram = packet(0x99, 0, Opcode::kUdSendOnly);
  for (std::uint32_t i = 0; i < 5000; ++i) {
    const auto high = static_cast<std::uint8_t>(i >> 8), low = static_cast<std::uint8_t>(i);
    injector.decide(Direction::kReceived, datagram, {.address = proto::Gid::from_v4(10, 0, high, low)});
  }
  EXPECT_LE(injector.remembered(), 64u + 512u) << "one packet each of the first senders; the others share a stream";
}

TEST(FaultInjector, QpsThatHaveGoneAreForgotten) {
  std::uint32_t living = 0;
  Injector injector(spec_of("rx.loss=50%"), [&](std::uint32_t qpn) -> std::optional<proto::QpIdentity> {
    if (qpn != living) return std::nullopt;
    return proto::QpIdentity{.nth = qpn};
  });
  for (living = 1; living <= 5000; ++living) {
    for (std::uint32_t psn = 0; psn < 20; ++psn) injector.decide(Direction::kReceived, packet(living, psn));
  }
  EXPECT_LT(injector.remembered(), 200u * 20);
}

TEST(FaultInjector, SelectsBySize) {
  for (const auto& [text, hit] :
       {std::pair("drop=size:16", true), std::pair("drop=size:10..16", true), std::pair("drop=size:16..20", true),
        std::pair("drop=size:0..15", false), std::pair("drop=size:17..4096", false)}) {
    Injector injector(spec_of(text));
    EXPECT_EQ(injector.decide(Direction::kSent, packet(0x11, 1)).drop, hit) << text;
  }
}

TEST(FaultInjector, SaysWhoDidWhat) {
  Injector injector(spec_of("corrupt=100%,dup=op:send,drop=psn:2"));
  EXPECT_EQ(to_comment(injector.decide(Direction::kSent, packet(0x11, 1))),
            "uroce: corrupted by corrupt=100%, duplicated by dup=op:send");
  EXPECT_EQ(to_comment(injector.decide(Direction::kSent, packet(0x11, 2))), "uroce: dropped by drop=psn:2");
  EXPECT_EQ(to_comment(injector.decide(Direction::kReceived, packet(0x11, 1))), "");
}

TEST(FaultInjector, ConditionsMeanNothingThatIsNotRoce) {
  Injector injector(spec_of("rx.drop=psn:0,rx.drop=op:send_first,rx.drop=qp:0"));
  EXPECT_FALSE(injector.decide(Direction::kReceived, std::vector<std::uint8_t>(64, 0xFF)).drop);
}

TEST(FaultInjector, WhatIsNoPacketIsHitAsPacketsAre) {
  for (std::size_t size = 0; size < 64; ++size) {
    Injector injector(spec_of("rx.loss=100%,rx.corrupt=50%,rx.drop=op:send"));
    EXPECT_TRUE(injector.decide(Direction::kReceived, std::vector<std::uint8_t>(size, 0xFF)).drop) << size << " bytes";
    EXPECT_EQ(injector.counters().of(Kind::kDrop), 1u) << size << " bytes";
  }
}

TEST(FaultInjector, FaultsThatMetTooFewPacketsAreNamed) {
  Injector injector(spec_of("drop=op:read_response#1,rx.dup=qp:0x12,dup=qp:0x11#9,loss=1%,ecn=psn:3"));
  dropped(injector, 0x11, 5);
  const std::vector<std::string> expected = {
      "drop=op:read_response#1 met no packet that this side sent; for packets that it receives: "
      "rx.drop=op:read_response#1",
      "rx.dup=qp:0x12 met no packet that this side received", "dup=qp:0x11#9 met only 5 packets that this side sent"};
  EXPECT_EQ(injector.without_effect(), expected);
}

}  // namespace
}  // namespace uroce::test
