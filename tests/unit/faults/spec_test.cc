// SPDX-License-Identifier: Apache-2.0
// The fault language: what is understood, and what is refused with a sentence.
#include "engine/faults/spec.h"

#include <gmock/gmock.h>

#include <cerrno>

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using namespace engine::faults;
using testing::HasSubstr;

FaultSpec parsed(std::string_view text) {
  auto spec = parse_faults(text);
  EXPECT_TRUE(spec) << spec.error();
  return spec ? *spec : FaultSpec{};
}
PacketFault packet_fault(std::string_view text) {
  const FaultSpec spec = parsed(text);
  EXPECT_EQ(spec.packets.size(), 1u);
  return spec.packets.empty() ? PacketFault{} : spec.packets.front();
}

TEST(FaultSpec, NothingIsNoFault) {
  const FaultSpec spec = parsed("");
  EXPECT_FALSE(spec.touches_wire());
  EXPECT_EQ(spec.seed, 1u);
}

TEST(FaultSpec, TheExampleOfTheDocumentation) {
  const FaultSpec spec = parsed(
      "seed=7,loss=1%,dup=0.1%,reorder=2%:3,delay=50us..2ms,corrupt=0.01%,drop=psn:0x101@qp:0x11#1,rnr=5%,"
      "blackout=2s..3s,ecn=10%");
  EXPECT_EQ(spec.seed, 7u);
  ASSERT_EQ(spec.packets.size(), 7u);
  EXPECT_EQ(spec.packets[0].kind, Kind::kDrop);
  EXPECT_DOUBLE_EQ(spec.packets[0].probability, 0.01);
  EXPECT_EQ(spec.packets[1].kind, Kind::kDuplicate);
  EXPECT_DOUBLE_EQ(spec.packets[1].probability, 0.001);
  EXPECT_EQ(spec.packets[2].kind, Kind::kReorder);
  EXPECT_EQ(spec.packets[2].distance, 3u);
  EXPECT_EQ(spec.packets[3].delay_min, 50us);
  EXPECT_EQ(spec.packets[3].delay_max, 2ms);
  EXPECT_EQ(spec.packets[5].psn->first, 0x101u);
  EXPECT_EQ(spec.packets[5].qp->value, 0x11u);
  EXPECT_EQ(spec.packets[5].which.last, 1u);
  EXPECT_DOUBLE_EQ(spec.rnr, 0.05);
  ASSERT_EQ(spec.blackouts.size(), 1u);
  EXPECT_EQ(spec.blackouts[0].from, 2s);
  EXPECT_EQ(spec.packets[6].kind, Kind::kEcn);
}

TEST(FaultSpec, Conditions) {
  EXPECT_EQ(packet_fault("rx.loss=0.5").direction, Direction::kReceived);
  EXPECT_EQ(packet_fault("drop=psn:17").psn->first, 17u);
  EXPECT_EQ(packet_fault("drop=psn:17").psn->last, 17u);
  EXPECT_EQ(packet_fault("drop=psn:0xffffff..2").psn->last, 2u);
  EXPECT_FALSE(packet_fault("drop=psn:17..18").psn->from_first);
  EXPECT_TRUE(packet_fault("drop=psn:+17..18").psn->from_first);
  const PacketFault delayed = packet_fault("delay=5ms@op:ack@10%#2..4");
  EXPECT_EQ(delayed.delay_min, 5ms);
  EXPECT_EQ(delayed.delay_max, 5ms);
  EXPECT_EQ(delayed.answer, PacketFault::Answer::kAck);
  EXPECT_DOUBLE_EQ(delayed.probability, 0.1);
  EXPECT_EQ(delayed.which.first, 2u);
  EXPECT_EQ(delayed.which.last, 4u);
  EXPECT_EQ(packet_fault("reorder=psn:0x10:2").distance, 2u);
  EXPECT_EQ(packet_fault("drop=#3").which.first, 3u);
  EXPECT_EQ(packet_fault("drop=#3..").which.last, Which::kNoEnd);
  EXPECT_EQ(packet_fault("delay=5ms@#3").which.first, 3u);
  EXPECT_EQ(packet_fault("delay=5ms#3").which.first, 3u);
  EXPECT_EQ(packet_fault("reorder=psn:0x10:2").psn->first, 0x10u);
}

TEST(FaultSpec, MessagesOfConnectionManagement) {
  const PacketFault fault = packet_fault("drop=op:cm_rep#1");
  EXPECT_EQ(fault.opcodes, std::bitset<256>().set(0x64));
  EXPECT_EQ(fault.messages, std::bitset<16>().set(3));  // 0x13 - 0x10
  EXPECT_EQ(packet_fault("drop=op:cm").messages.count(), 11u);
  EXPECT_EQ(packet_fault("drop=op:cm_sidr").messages.count(), 2u);
  EXPECT_FALSE(parse_faults("drop=op:cm_re"));
  EXPECT_FALSE(parse_faults("drop=op:cm_"));
  EXPECT_TRUE(packet_fault("drop=op:send").messages.none());
}

TEST(FaultSpec, Connections) {
  const FaultSpec spec = parsed(
      "cm.addr_error=ENODEV,cm.route_error=110#2,cm.unreachable=ETIMEDOUT@50%,cm.rejected=no_listener#2..3,"
      "cm.reject=29@5%#2..,cm.disconnect=150ms#1");
  ASSERT_EQ(spec.connections.size(), 6u);
  EXPECT_EQ(spec.connections[0].kind, CmFault::Kind::kAddressError);
  EXPECT_EQ(spec.connections[0].value, ENODEV);
  EXPECT_EQ(spec.connections[0].which.last, Which::kNoEnd);
  EXPECT_EQ(spec.connections[0].text, "cm.addr_error=ENODEV");
  EXPECT_EQ(spec.connections[1].kind, CmFault::Kind::kRouteError);
  EXPECT_EQ(spec.connections[1].value, 110);
  EXPECT_EQ(spec.connections[1].which.last, 2u);
  EXPECT_EQ(spec.connections[2].kind, CmFault::Kind::kUnreachable);
  EXPECT_DOUBLE_EQ(spec.connections[2].probability, 0.5);
  EXPECT_EQ(spec.connections[3].kind, CmFault::Kind::kRejected);
  EXPECT_EQ(spec.connections[3].value, 8);
  EXPECT_EQ(spec.connections[3].which.first, 2u);
  EXPECT_EQ(spec.connections[4].kind, CmFault::Kind::kReject);
  EXPECT_EQ(spec.connections[4].value, 29);
  EXPECT_DOUBLE_EQ(spec.connections[4].probability, 0.05);
  EXPECT_EQ(spec.connections[4].which.first, 2u);
  EXPECT_EQ(spec.connections[5].kind, CmFault::Kind::kDisconnect);
  EXPECT_EQ(spec.connections[5].after, 150ms);
  EXPECT_FALSE(spec.touches_wire());
}

TEST(FaultSpec, OperationsAreBeginningsOfOpcodeNames) {
  const auto opcodes = [](std::string_view text) { return packet_fault(text).opcodes; };
  EXPECT_TRUE(opcodes("drop=op:send").test(0x00));
  EXPECT_TRUE(opcodes("drop=op:send").test(0x04));
  EXPECT_FALSE(opcodes("drop=op:send").test(0x06));
  EXPECT_EQ(opcodes("drop=op:send_first").count(), 2u);  // RC's and UC's.
  EXPECT_EQ(opcodes("drop=op:read_response").count(), 4u);
  EXPECT_TRUE(opcodes("drop=op:ack").test(0x11));
  EXPECT_FALSE(opcodes("drop=op:ack").test(0x12));
  EXPECT_TRUE(opcodes("drop=op:atomic_ack").test(0x12));
  EXPECT_EQ(packet_fault("drop=op:rnr").answer, PacketFault::Answer::kRnr);
  EXPECT_EQ(opcodes("drop=op:rc_send_first").count(), 1u);
  EXPECT_EQ(opcodes("drop=op:uc_send").count(), 6u);
  EXPECT_EQ(opcodes("drop=op:rc_read_request"), std::bitset<256>().set(0x0C));
  EXPECT_EQ(opcodes("drop=op:read"), std::bitset<256>().set(0x0C)) << "requests; responses are read_response";
  EXPECT_EQ(opcodes("drop=op:atomic"), std::bitset<256>().set(0x13).set(0x14)) << "requests, too";
  EXPECT_TRUE(opcodes("drop=op:cnp").test(0x81));
}

TEST(FaultSpec, FaultsOfTheNic) {
  const FaultSpec spec = parsed(
      "port=down@2s..3s/10s,qp_fatal=qp:0x11@1s,cq_overflow=qp:18@1.5s,device_fatal=5s,"
      "call=ibv_create_cq#3:ENOMEM,wr=qp:0x11#5:RETRY_EXC_ERR");
  ASSERT_EQ(spec.port_down.size(), 1u);
  EXPECT_EQ(spec.port_down[0].period, 10s);
  ASSERT_EQ(spec.qp_fatal.size(), 1u);
  EXPECT_EQ(spec.qp_fatal[0].qp.value, 0x11u);
  EXPECT_EQ(spec.qp_fatal[0].at, 1s);
  ASSERT_EQ(spec.cq_overflow.size(), 1u);
  EXPECT_EQ(spec.cq_overflow[0].at, 1500ms);
  EXPECT_EQ(spec.device_fatal, Duration(5s));
  ASSERT_EQ(spec.calls.size(), 1u);
  EXPECT_EQ(spec.calls[0].verb, "ibv_create_cq");
  EXPECT_TRUE(spec.calls[0].which.includes(3));
  EXPECT_FALSE(spec.calls[0].which.includes(4));
  EXPECT_EQ(spec.calls[0].error, ENOMEM);
  for (const auto& [name, error] :
       {std::pair("ERANGE", ERANGE), {"EOPNOTSUPP", ENOTSUP}, {"ENOTSUP", ENOTSUP}, {"133", 133}}) {
    EXPECT_EQ(parsed("call=ibv_create_cq#1:" + std::string(name)).calls[0].error, error) << name;
  }
  ASSERT_EQ(spec.wrs.size(), 1u);
  EXPECT_EQ(spec.wrs[0].status, 12);
}

TEST(FaultSpec, TimesHaveAUnit) {
  const FaultSpec spec = parsed("blackout=100ns..5us,blackout=0s..1h,port=down@0.5h..24h");
  ASSERT_EQ(spec.blackouts.size(), 2u);
  EXPECT_EQ(spec.blackouts[0].from, 100ns);
  EXPECT_EQ(spec.blackouts[0].to, 5us);
  EXPECT_EQ(spec.blackouts[1].to, 1h);
  ASSERT_EQ(spec.port_down.size(), 1u);
  EXPECT_EQ(spec.port_down[0].from, 30min);
}

TEST(FaultSpec, NonsenseIsRefusedWithTheItemAndAHint) {
  constexpr const char* kBad[] = {"loss",
                                  "loss=",
                                  "loss=101%",
                                  "loss=1",
                                  "loss=1.0",
                                  "drop=op:rc_",
                                  "drop=size:",
                                  "drop=size:5..4",
                                  "drop=size:5..",
                                  "drop=op:xc_send",
                                  "drop=#..3",
                                  "loss=-1%",
                                  "loss=1%%",
                                  "loss=nan",
                                  "loss=1e400",
                                  "los=1%",
                                  "=",
                                  ",",
                                  "loss=1%,",
                                  "seed=x",
                                  "seed=",
                                  "seed=-1",
                                  "drop=psn:",
                                  "drop=psn:0x1000000",
                                  "seed=1,seed=2",
                                  "rnr=1%,rnr=2%",
                                  "device_fatal=1s,loss=1%,device_fatal=2s",
                                  "loss=1%, dup=1%",
                                  "drop=psn:+",
                                  "drop=psn:+2..1",
                                  "drop=psn:1..+2",
                                  "drop=psn:1..",
                                  "drop=qp:zz",
                                  "drop=qp:st",
                                  "drop=qp:0th",
                                  "drop=qp:0x1st",
                                  "drop=qp:1sts",
                                  "drop=qp:4294967296th",
                                  "wr=qp:first#5:FATAL_ERR",
                                  "drop=op:",
                                  "drop=op:nonsense",
                                  "drop=op:sen",
                                  "drop=op:send@op:write",
                                  "drop=op:cm_req@op:ack",
                                  "drop=psn:1@psn:2",
                                  "drop=size:1@size:2",
                                  "loss=1%@2%",
                                  "drop=#0",
                                  "drop=psn:1#",
                                  "drop=psn:1#3..2",
                                  "drop=#",
                                  "delay=#3",
                                  "reorder=#3",
                                  "delay=",
                                  "delay=5",
                                  "delay=5m",
                                  "delay=2ms..1ms",
                                  "delay=1%",
                                  "delay=99999999s",
                                  "reorder=2%",
                                  "reorder=2%:0",
                                  "reorder=:3",
                                  "blackout=2s",
                                  "blackout=3s..2s",
                                  "blackout=2s..2s",
                                  "blackout=1s..3s/1s",
                                  "port=up",
                                  "port=down",
                                  "port=down@1ns..2ns/3ns",
                                  "port=down@1s..1000999us",
                                  "port=down@1s..2s/1000999us",
                                  "port=down@1s..2s/1s",
                                  "port=down@0s..0s/1s",
                                  "port=down@1s..2s/0s",
                                  "port=down@1s..2s/",
                                  "port=down@..2s",
                                  "port=down@1s..2s/-1s",
                                  "port=down@1s..90000s",
                                  "qp_fatal=qp:0x11",
                                  "qp_fatal=1s",
                                  "device_fatal=",
                                  "call=ibv_create_cq",
                                  "call=ibv_create_cq#1",
                                  "call=ibv_create_cq#1:ENONSENSE",
                                  "call=#1:EIO",
                                  "wr=qp:0x11#5",
                                  "wr=qp:0x11#5:SUCCESS",
                                  "wr=0x11#5:FATAL_ERR",
                                  "cm.reject",
                                  "cm.reject=",
                                  "cm.reject=0",
                                  "cm.reject=65536",
                                  "cm.reject=ETIMEDOUT",
                                  "cm.reject=8@",
                                  "cm.reject=8@1",
                                  "cm.reject=8#0",
                                  "cm.reject=8#1@50%",
                                  "cm.unreachable=1s",
                                  "cm.disconnect=ETIMEDOUT",
                                  "cm.established=1s",
                                  "cm.=1s",
                                  "rx.cm.reject=8",
                                  "rx.rnr=5%",
                                  "rnr=x"};
  for (const char* text : kBad) {
    const auto spec = parse_faults(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_THAT(spec.error(), HasSubstr("': ")) << text;
  }
}

TEST(FaultSpec, SaysWhereReorderHasItsNumber) {
  EXPECT_EQ(packet_fault("reorder=op:write:3#2").distance, 3u);
  for (const char* text : {"reorder=op:write#2:3", "reorder=psn:16#2:3", "reorder=op:write#2", "reorder=5%"}) {
    const auto spec = parse_faults(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_THAT(spec.error(), HasSubstr("reorder=op:write:3#2")) << text;
  }
}

TEST(FaultSpec, QpsByTheirOrder) {
  const FaultSpec spec =
      parsed("drop=qp:1st,qp_fatal=qp:2nd@1s,cq_overflow=qp:3rd@1s,wr=qp:11th#1:FATAL_ERR,dup=qp:17");
  ASSERT_TRUE(spec.packets.size() == 2 && spec.qp_fatal.size() == 1 && spec.wrs.size() == 1);
  EXPECT_TRUE(spec.packets[0].qp->by_order && spec.packets[0].qp->value == 1);
  EXPECT_TRUE(spec.qp_fatal[0].qp.by_order && spec.qp_fatal[0].qp.value == 2);
  EXPECT_TRUE(spec.cq_overflow[0].qp.by_order && spec.cq_overflow[0].qp.value == 3);
  EXPECT_TRUE(spec.wrs[0].qp.by_order && spec.wrs[0].qp.value == 11);
  EXPECT_TRUE(!spec.packets[1].qp->by_order && spec.packets[1].qp->value == 17);
}

TEST(FaultSpec, OddButPossibleIntervals) {
  for (const char* text : {"port=down@0s..1ms", "port=down@1us..1001us", "port=down@1s..2s/2001ms",
                           "port=down@0s..86400s", "blackout=1ns..2ns/3ns", "blackout=0s..1s/1s"}) {
    EXPECT_TRUE(parse_faults(text)) << text;
  }
}

TEST(FaultInterval, ContainsAndEdges) {
  const Interval once{2s, 3s, {}};
  EXPECT_FALSE(once.contains(1999ms));
  EXPECT_TRUE(once.contains(2s));
  EXPECT_FALSE(once.contains(3s));
  EXPECT_EQ(once.next_edge(Duration{-1}), Duration(2s));
  EXPECT_EQ(once.next_edge(2s), Duration(3s));
  EXPECT_EQ(once.next_edge(3s), std::nullopt);
  const Interval again{2s, 3s, 10s};
  EXPECT_TRUE(again.contains(12500ms));
  EXPECT_FALSE(again.contains(13s));
  EXPECT_EQ(again.next_edge(3s), Duration(12s));
  EXPECT_EQ(again.next_edge(12s), Duration(13s));
}

}  // namespace
}  // namespace uroce::test
