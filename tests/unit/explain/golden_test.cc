// SPDX-License-Identifier: Apache-2.0
// Every capture of pcaps/, told: each packet that was sent again has its cause. The topics' names and INDEX.md say what
// was done to the wire; the JSON files have the log of the device that did it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/unit/explain/retold.h"
#include "tests/unit/explain/rewritten.h"
#include "tools/explain/words/sentences.h"

namespace uroce::explain::test {
namespace {

/// Captures in which something is sent again or goes wrong. In all others nothing may.
const std::map<std::string, std::string> kTroubles{
    // clang-format off
    {"lost_last_packet", "answer_again:2 timeout:4"},
    {"lost_packet", "nak:3 nak_sequence:1"},
    {"remote_access_error", "fatal_nak:1"},
    {"retry_exceeded", "timeout?:2"},
    {"rnr", "rnr:1 rnr_nak:1"},
    {"rxe/cm_reject_no_listener", "cm_rej:1"},
    {"rxe/corrupt_icrc_only.atA", "timeout:1"},
    {"rxe/corrupt_icrc_only.atB", "icrc_wrong:1"},
    {"rxe/corrupt_icrc_send.atA", "nak:2 nak_sequence:1"},
    {"rxe/corrupt_icrc_send.atB", "icrc_wrong:1 nak:2 nak_sequence:1"},
    {"rxe/delay_ack_send.atA", "answer_again:1 timeout:1"},
    {"rxe/delay_ack_send.atB", "answer_again:1 timeout:1"},
    {"rxe/dup_atomic.atA", "answer_again:1"},
    {"rxe/dup_atomic.atB", "answer_again:1 network_copy:1"},
    {"rxe/dup_read_request.atA", "answer_again:3"},
    {"rxe/dup_read_request.atB", "answer_again:3 network_copy:1"},
    {"rxe/dup_send_last.atA", "answer_again:1"},
    {"rxe/dup_send_last.atB", "answer_again:1 network_copy:1"},
    {"rxe/dup_send_middle.atB", "network_copy:1"},
    {"rxe/loss_ack_send.atA", "answer_again:2 timeout:3"},
    {"rxe/loss_ack_send.atB", "answer_again:3 timeout:3"},
    {"rxe/loss_ack_write.atA", "timeout:1"},
    {"rxe/loss_ack_write.atB", "answer_again:1 timeout:1"},
    {"rxe/loss_atomic_ack.atA", "timeout:1"},
    {"rxe/loss_atomic_ack.atB", "answer_again:1 timeout:1"},
    {"rxe/loss_atomic_req.atA", "timeout:1"},
    {"rxe/loss_cm_rep.atB", "management_again:1"},
    {"rxe/loss_cm_req.atA", "management_again:1"},
    {"rxe/loss_cm_rtu.atA", "management_again:2"},
    {"rxe/loss_cm_rtu.atB", "management_again:1"},
    {"rxe/loss_nak.atA", "answer_again:2 timeout:8"},
    {"rxe/loss_nak.atB", "answer_again:3 gap:1 nak_sequence:1 timeout:8"},
    {"rxe/loss_read_request.atA", "timeout:1"},
    {"rxe/loss_read_response_last.atA", "timeout:1"},
    {"rxe/loss_read_response_last.atB", "answer_again:1 timeout:1"},
    {"rxe/loss_read_response_middle.atA", "behind_gap:4 implied_nak:1 timeout:1"},
    {"rxe/loss_read_response_middle.atB", "answer_again:5 timeout:1"},
    {"rxe/loss_read_two_middle.atA", "behind_gap:5 implied_nak:3"},
    {"rxe/loss_read_two_middle.atB", "answer_again:6 implied_nak?:2"},
    {"rxe/loss_retry_exceeded.atA", "timeout:3"},
    {"rxe/loss_retry_exceeded_multi.atA", "timeout:6"},
    {"rxe/loss_send_first.atA", "nak:8 nak_sequence:1"},
    {"rxe/loss_send_first.atB", "nak:8 nak_sequence:1"},
    {"rxe/loss_send_last.atA", "answer_again:6 timeout:8"},
    {"rxe/loss_send_last.atB", "answer_again:6 timeout:7"},
    {"rxe/loss_send_list_middle.atA", "nak:3 nak_sequence:1"},
    {"rxe/loss_send_list_middle.atB", "gap:1 nak:3 nak_sequence:1"},
    {"rxe/loss_send_middle.atA", "nak:5 nak_sequence:1"},
    {"rxe/loss_send_middle.atB", "gap:1 nak:5 nak_sequence:1"},
    {"rxe/loss_send_only.atA", "timeout:1"},
    {"rxe/loss_send_two.atA", "nak:6 nak_sequence:1"},
    {"rxe/loss_send_two.atB", "gap:2 nak:6 nak_sequence:1"},
    {"rxe/loss_write_imm_middle.atA", "nak:2 nak_sequence:1"},
    {"rxe/loss_write_imm_middle.atB", "gap:1 nak:2 nak_sequence:1"},
    {"rxe/loss_write_middle.atA", "nak:5 nak_sequence:1"},
    {"rxe/loss_write_middle.atB", "gap:1 nak:5 nak_sequence:1"},
    {"rxe/peer_gone", "timeout:2"},
    {"rxe/peer_in_error", "timeout:2"},
    {"rxe/peer_in_init", "timeout:2"},
    {"rxe/probe_requester", "answer_again:1 fatal_nak:2 gap:1 implied_nak:1 nak:5 nak_sequence:4 network_copy?:2 other_contents:13 reserved_syndrome:2 rnr:2 rnr_nak:2 timeout:24 unseen_request:4"},
    {"rxe/probe_responder", "answer_again:12 atomic_address:2 fatal_nak:21 gap:1 header:1 icrc_wrong:1 nak_sequence:7 other_contents:1 rnr_nak:4 rule:13 timeout:1 timeout?:7 unknown?:1"},
    {"rxe/psn_wrap_loss.atA", "nak:4 nak_sequence:1"},
    {"rxe/psn_wrap_loss.atB", "gap:1 nak:4 nak_sequence:1"},
    {"rxe/rc_err_cas_bad_rkey", "fatal_nak:1"},
    {"rxe/rc_err_cas_no_permission", "fatal_nak:1"},
    {"rxe/rc_err_faa_qp_no_access", "fatal_nak:1"},
    {"rxe/rc_err_read_bad_rkey", "fatal_nak:1"},
    {"rxe/rc_err_read_no_permission", "fatal_nak:1"},
    {"rxe/rc_err_read_qp_no_access", "fatal_nak:1"},
    {"rxe/rc_err_recv_bad_lkey", "fatal_nak:1"},
    {"rxe/rc_err_recv_out_of_bounds", "fatal_nak:1"},
    {"rxe/rc_err_send_multi_too_long", "fatal_nak:1"},
    {"rxe/rc_err_send_too_long", "fatal_nak:1"},
    {"rxe/rc_err_write_bad_rkey", "fatal_nak:1"},
    {"rxe/rc_err_write_bad_rkey_key", "fatal_nak:1"},
    {"rxe/rc_err_write_multi_bad_rkey", "fatal_nak:1"},
    {"rxe/rc_err_write_no_permission", "fatal_nak:1"},
    {"rxe/rc_err_write_out_of_bounds", "fatal_nak:1"},
    {"rxe/rc_err_write_qp_no_access", "fatal_nak:1"},
    {"rxe/rc_mw2_beyond_mr", "fatal_nak:1"},
    {"rxe/rc_mw2_no_permission", "fatal_nak:1"},
    {"rxe/rc_rnr_exceeded", "rnr:2 rnr_nak:3"},
    {"rxe/rc_rnr_multi_then_ok", "nak_sequence:3 rnr:12 rnr_nak:3"},
    {"rxe/rc_rnr_retry0", "rnr_nak:1"},
    {"rxe/rc_rnr_then_ok", "rnr:3 rnr_nak:3"},
    {"rxe/rc_rnr_write_imm", "answer_again:1 rnr:4 rnr_nak:3"},
    {"rxe/rc_send_inv_mw", "fatal_nak:1"},
    {"rxe/rc_srq", "rnr:2 rnr_nak:2"},
    {"rxe/reorder_send.atA", "answer_again:1 nak:3 nak_sequence:2"},
    {"rxe/reorder_send.atB", "answer_again:1 gap:1 nak:3 nak_sequence:2 reordered:1"},
    {"rxe/uc_loss_send.atB", "gap:1"},
    {"rxe/uc_loss_write.atB", "gap:1"},
    {"rxe_cm/backlog2.atB", "cm_rej:4 management_again:4"},
    {"rxe_cm/basic.atB", "management_again:1"},
    {"rxe_cm/cli_dies_early.atB", "cm_rej:1"},
    {"rxe_cm/delay6.atB", "management_again:1"},
    {"rxe_cm/destroyreq.atB", "cm_rej:1"},
    {"rxe_cm/drop_alldrep.atA", "management_again:15"},
    {"rxe_cm/drop_alldrep.atB", "management_again:15"},
    {"rxe_cm/drop_allrep.atA", "management_again:15"},
    {"rxe_cm/drop_allrep.atB", "cm_rej:1 management_again:33"},
    {"rxe_cm/drop_drep.atA", "management_again:1"},
    {"rxe_cm/drop_drep.atB", "management_again:1"},
    {"rxe_cm/drop_rej.atA", "cm_rej:1 management_again:1"},
    {"rxe_cm/drop_rej.atB", "cm_rej:2 management_again:1"},
    {"rxe_cm/drop_sidrrep.atA", "management_again:1"},
    {"rxe_cm/drop_sidrrep.atB", "management_again:2"},
    {"rxe_cm/dup_dreq.atB", "network_copy:1"},
    {"rxe_cm/dup_rep.atA", "network_copy:1"},
    {"rxe_cm/dup_req.atB", "network_copy:1"},
    {"rxe_cm/dup_rtu.atB", "network_copy:1"},
    {"rxe_cm/dup_sidrreq.atB", "network_copy:1"},
    {"rxe_cm/ignore.atB", "cm_rej:1 management_again:1"},
    {"rxe_cm/listener_gone.atB", "cm_rej:1"},
    {"rxe_cm/norep.atB", "cm_rej:1 management_again:1"},
    {"rxe_cm/reject_pd.atB", "cm_rej:1"},
    {"rxe_cm/tcp_on_ud.atB", "cm_rej:1"},
    {"rxe_cm/ud_nolisten.atB", "cm_rej:1"},
    {"rxe_cm/unreach.atA", "management_again:15"},
    // clang-format on
};

TEST(Golden, EveryRetransmissionHasItsCause) {
  const auto captures = all_captures();
  ASSERT_GT(captures.size(), 250u);
  for (const std::string& name : captures) {
    const auto row = kTroubles.find(name);
    EXPECT_EQ(retell({name}).counts(), row == kTroubles.end() ? "" : row->second) << name;
  }
  for (const auto& [name, counts] : kTroubles) EXPECT_THAT(captures, testing::Contains(name));
}

TEST(Golden, EveryPacketIsTold) {
  for (const std::string& name : all_captures()) {
    const Retold retold = retell({name});
    ASSERT_EQ(retold.files.size(), 1u) << name;
    EXPECT_EQ(retold.files[0].damage, "") << name;
    const bool probes = name.starts_with("rxe/probe_");
    if (!probes) {
      EXPECT_EQ(retold.files[0].broken, 0u) << name;
    }
    EXPECT_EQ(retold.lines.size() + retold.files[0].broken + retold.files[0].not_roce, retold.files[0].frames) << name;
    EXPECT_LE(retold.story->totals().icrc_wrong, 1u) << name;
  }
}

nlohmann::json sidecar(const std::string& topic) {
  std::ifstream file(std::string(UROCE_SOURCE_DIR) + "/pcaps/" + topic + ".json");
  return nlohmann::json::parse(file);
}

/// What the device between the two ends says that it has done, and what both ends' captures tell.
TEST(Golden, BothEndsTellWhatTheWireDid) {
  std::size_t topics = 0;
  for (const std::string& name : all_captures()) {
    if (!name.starts_with("rxe/") || !name.ends_with(".atA")) continue;
    const std::string topic = name.substr(0, name.size() - 4);
    std::map<std::string, std::uint64_t> done, told;
    const nlohmann::json facts = sidecar(topic);
    for (const auto& entry : facts["forwarder_log"]) {
      const std::string line = entry;
      ++done[line.substr(0, line.find(' '))];
    }
    const Retold retold = retell({topic + ".atA", topic + ".atB"});
    std::uint64_t copies = 0;
    for (const Line& line : retold.lines) copies += line.told.reason == Reason::kNetworkCopy ? 1u : 0u;
    for (const auto& [verb, count] : {std::pair{"drop", retold.noted("lost")},
                                      {"corrupt", retold.noted("damaged")},
                                      {"dup", copies},
                                      {"swap", retold.noted("overtook")},
                                      {"delay", retold.noted("slow")}}) {
      if (count != 0) told[verb] = count;
    }
    EXPECT_EQ(told, done) << topic;
    ++topics;
  }
  EXPECT_EQ(topics, 35u);
}

/// Damage is counted once, whichever captures are there, and not beside a packet that came whole.
TEST(Golden, DamageIsCountedAsTheReceiverSeesIt) {
  for (const std::string name : {"rxe/corrupt_icrc_only", "rxe/corrupt_icrc_send"}) {
    for (const Retold& retold : {retell({name + ".atB"}), retell({name + ".atA", name + ".atB"})}) {
      EXPECT_EQ(retold.story->totals().icrc_wrong, 1u) << name;
      EXPECT_EQ(retold.story->totals().icrc_right + 1, retold.story->totals().packets) << name;
    }
    EXPECT_EQ(retell({name + ".atA", name + ".atB"}).story->connection(1)->icrc_wrong, 1u) << name;
  }
}

/// Two hosts, two pcap files, two clocks: one story, whatever the clocks say.
TEST(Golden, TheClocksOfTwoHostsDiffer) {
  for (const std::string topic :
       {"rxe/loss_nak", "rxe/dup_send_last", "rxe/reorder_send", "rxe/loss_read_two_middle"}) {
    const Retold same = retell({topic + ".atA", topic + ".atB"});
    for (const std::int64_t clock : {5'500'000'000LL, -3'600'000'000'000LL, -20'000'000LL, 300'000LL}) {
      const Retold retold = retell_files({pcap(topic + ".atA"), pcap(topic + ".atB", {.clock_ns = clock})});
      EXPECT_EQ(retold.counts(), same.counts()) << topic << ' ' << clock;
      EXPECT_EQ(retold.lines.size(), same.lines.size()) << topic << ' ' << clock;
      ASSERT_EQ(retold.files.size(), 2u);
      EXPECT_EQ(retold.files[1].clock_ahead_ns.value_or(0) - same.files[1].clock_ahead_ns.value_or(0), clock) << topic;
    }
  }
}

/// The captures of both ends in one file, as mergecap writes it.
Octets merged(const std::string& topic, std::int64_t clock_ns) {
  using Record = std::pair<std::int64_t, Octets>;
  std::vector<Record> frames = frames_of(topic + ".atA");
  for (Record& record : frames_of(topic + ".atB"))
    frames.emplace_back(record.first - clock_ns, std::move(record.second));
  std::stable_sort(frames.begin(), frames.end(), [](const Record& a, const Record& b) { return a.first < b.first; });
  return pcap_of(frames);
}

/// One file that has the packets of both ends, and no word about it, says the same as two files: what comes twice was
/// not sent twice.
TEST(Golden, BothEndsInOneFile) {
  std::size_t topics = 0;
  for (const std::string& name : all_captures()) {
    if (!name.starts_with("rxe") || !name.ends_with(".atA")) continue;
    const std::string topic = name.substr(0, name.size() - 4);
    // Of one way, nothing arrived: few packets are there twice.
    if (topic.find("retry_exceeded") != std::string::npos) continue;
    if (topic == "rxe_cm/unreach") continue;
    const Retold two = retell({topic + ".atA", topic + ".atB"});
    const Retold one = retell_bytes(merged(topic, two.files[1].clock_ahead_ns.value_or(0)));
    EXPECT_EQ(one.counts(), two.counts()) << topic;
    EXPECT_EQ(one.noted("lost"), two.noted("lost")) << topic;
    EXPECT_EQ(one.lines.size(), two.lines.size()) << topic;
    ++topics;
  }
  EXPECT_GT(topics, 40u);
}

/// What one end goes on asking for, and the other one answers in vain: the answers were lost. It is a guess.
TEST(Golden, BothEndsInOneFileWhereOneWayLosesEverything) {
  const Retold one = retell_bytes(merged("rxe_cm/drop_allrep", 0));
  EXPECT_EQ(one.noted("lost"), 21u);
  for (const Line& line : one.lines) {
    for (const Note& note : line.told.notes) {
      if (note.code == "lost") {
        EXPECT_THAT(note.text, testing::StartsWith("probably lost"));
      }
    }
  }
}

/// A mirror that shows one direction twice: nothing was copied by the network, and nothing was lost.
TEST(Golden, OneDirectionTwiceInOneFile) {
  for (const std::string capture : {"rxe/rc_send_64k_mtu1024", "rxe/rc_write_157pkt_mtu256", "rxe/cm_rping_v4"}) {
    for (const int twice : {11, 12}) {
      const Retold once = retell({capture});
      std::vector<std::pair<std::int64_t, Octets>> frames;
      std::size_t doubled = 0;
      for (const auto& [time, frame] : frames_of(capture)) {
        frames.emplace_back(time, frame);
        if (frame.at(14 + 15) != twice) continue;  // 10.77.0.11 or .12.
        frames.emplace_back(time + 5'000, frame);
        ++doubled;
      }
      if (doubled < 4) continue;
      std::stable_sort(frames.begin(), frames.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      const Retold retold = retell_bytes(pcap_of(frames));
      EXPECT_EQ(retold.counts(), once.counts()) << capture << ' ' << twice;
      EXPECT_EQ(retold.noted("lost"), 0u) << capture << ' ' << twice;
      EXPECT_EQ(retold.lines.size(), once.lines.size()) << capture << ' ' << twice;
    }
  }
}

/// A live capture is told at once. After 20 packets it shows that it has each one twice: from then on each is told
/// once.
TEST(Golden, BothEndsInOneLiveCapture) {
  for (const std::string capture : {"rxe/rc_write_157pkt_mtu256", "rxe/rc_send_64k_mtu1024"}) {
    std::vector<std::pair<std::int64_t, Octets>> frames;
    for (const auto& [time, frame] : frames_of(capture)) {
      frames.emplace_back(time, frame);
      frames.emplace_back(time + 15'000, frame);
    }
    std::stable_sort(frames.begin(), frames.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const Retold live = retell_bytes(pcap_of(frames), true);
    std::map<std::pair<std::string, std::uint32_t>, int> times;
    for (std::size_t i = 0; i < live.lines.size(); ++i) {
      const auto& [packet, told] = live.lines[i];
      if (i >= 20) {
        EXPECT_EQ(packet.fate, Fate::kArrived) << capture << ' ' << i;
        const int nth = ++times[{std::string(packet.op->name), packet.psn.value()}];
        EXPECT_EQ(nth, 1) << capture << ' ' << i;
      }
    }
    EXPECT_LE(live.lines.size(), frames.size() / 2 + 10) << capture;
    EXPECT_GE(live.lines.size(), frames.size() / 2) << capture;
    // Of a file, all are told once.
    EXPECT_EQ(retell_bytes(pcap_of(frames)).lines.size(), frames.size() / 2) << capture;
  }
}

/// What the managers of both ends tell of the device between them: rxe_cm/README.md names what it drops.
TEST(Golden, WhatTheManagersHaveLost) {
  for (const auto& [topic, lost] : std::map<std::string, std::uint64_t>{{"drop_drep", 1},
                                                                        {"drop_alldrep", 1},
                                                                        {"drop_allrep", 21},
                                                                        {"drop_rej", 1},
                                                                        {"drop_sidrrep", 1},
                                                                        {"dup_rep", 0}}) {
    EXPECT_EQ(retell({"rxe_cm/" + topic + ".atA", "rxe_cm/" + topic + ".atB"}).noted("lost"), lost) << topic;
  }
}

/// The same with directions: Linux cooked, as `tcpdump -i any` writes it where a packet passes two interfaces.
TEST(Golden, BothEndsInOneCookedFile) {
  for (const std::string topic : {"rxe/loss_nak", "rxe/dup_send_last", "rxe/loss_send_only"}) {
    const Retold two = retell({topic + ".atA", topic + ".atB"});
    std::vector<std::pair<std::int64_t, Octets>> frames;
    for (const bool at_a : {true, false}) {
      for (const auto& [time, frame] : frames_of(topic + (at_a ? ".atA" : ".atB"))) {
        Octets cooked = behind_ethernet(frame, 16, 14);
        const bool from_a = frame.at(14 + 15) == 11;  // 10.77.0.11.
        cooked[1] = from_a == at_a ? 4 : 0;           // Outgoing, or to us.
        frames.emplace_back(time - (at_a ? 0 : two.files[1].clock_ahead_ns.value_or(0)), cooked);
      }
    }
    std::stable_sort(frames.begin(), frames.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const Retold one = retell_bytes(pcap_of(frames, {.link_type = 113}));
    EXPECT_EQ(one.counts(), two.counts()) << topic;
    EXPECT_EQ(one.noted("lost"), two.noted("lost")) << topic;
    EXPECT_EQ(one.lines.size(), two.lines.size()) << topic;
  }
}

/// Who sends it a second time can't be told where IPv4's Identification is 0, as with uroce.
TEST(Golden, ACopyOfADreqMayBeThatOfItsExecutor) {
  const Retold retold = retell({"rxe_cm/dup_dreq.atB"});
  const auto copy = std::find_if(retold.lines.begin(), retold.lines.end(),
                                 [](const Line& line) { return line.told.reason == Reason::kNetworkCopy; });
  ASSERT_NE(copy, retold.lines.end());
  EXPECT_THAT(why(copy->packet, copy->told, *retold.names), testing::StartsWith("COPY made by the network, 13.0 us"));
  Told unsure = copy->told;
  unsure.sure = false;
  EXPECT_THAT(
      why(copy->packet, unsure, *retold.names),
      testing::StartsWith("COPY made by the network, or sent again for a process that has ended, 13.0 us after"));
}

/// A router between the two, as `tcpdump -i any` there writes it: each packet comes in, and goes out.
TEST(Golden, ARouterInOneCookedFile) {
  for (const std::string capture : {"rxe/rc_send_64k_mtu1024", "rxe/loss_nak.atA", "rxe/loss_nak.atB"}) {
    std::vector<std::pair<std::int64_t, Octets>> frames;
    for (const auto& [time, frame] : frames_of(capture)) {
      const bool from_a = frame.at(14 + 15) == 11;  // 10.77.0.11.
      for (const bool comes_in : {true, false}) {
        Octets cooked = behind_ethernet(frame, 20, 0);
        cooked[7] = from_a == comes_in ? 2 : 3;  // Interfaces: A is behind 2.
        cooked[10] = comes_in ? 0 : 4;
        frames.emplace_back(comes_in ? time : time + 1'500, cooked);
      }
    }
    std::stable_sort(frames.begin(), frames.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const Retold at_router = retell_bytes(pcap_of(frames, {.link_type = 276}));
    const Retold at_end = retell({capture});
    EXPECT_EQ(at_router.counts(), at_end.counts()) << capture;
    EXPECT_EQ(at_router.lines.size(), at_end.lines.size()) << capture;
    EXPECT_EQ(at_router.files[0].passing, frames.size() / 2) << capture;
  }
}

/// Messages and their bytes, and the bytes that were acknowledged: "SEND 1 8192, 8192".
std::string messages_of(const std::string& capture) {
  const Retold retold = retell({capture});
  if (retold.story->connections().empty()) return "";
  const Numbers& n = retold.story->connections()[0]->to_right.numbers();
  std::string text;
  for (std::size_t i = 0; i < kOperations; ++i) {
    const auto& row = n.operations[i];
    if (row.count == 0) continue;
    text += std::string(to_string(static_cast<Operation>(i))) + ' ' + std::to_string(row.count) + ' ' +
            std::to_string(row.whole) + ' ' + std::to_string(row.bytes) + ", ";
  }
  return text + std::to_string(n.acked_bytes);
}

/// What was lost on the way is missing in the responder's capture, or comes late: the messages are the same.
TEST(Golden, MessagesAreTheSameSeenFromTheResponder) {
  std::size_t topics = 0;
  for (const std::string& name : all_captures()) {
    if (!name.starts_with("rxe/") || !name.ends_with(".atA")) continue;
    const std::string topic = name.substr(0, name.size() - 4);
    if (topic.find("retry_exceeded") != std::string::npos) continue;  // Nothing came.
    if (topic.starts_with("rxe/uc_")) continue;
    EXPECT_EQ(messages_of(topic + ".atB"), messages_of(name)) << topic;
    ++topics;
  }
  EXPECT_EQ(topics, 31u);
  // What UC loses is lost: the responder drops the message.
  EXPECT_EQ(messages_of("rxe/uc_loss_send.atA"), "SEND 3 3 9000, 9000");
  EXPECT_EQ(messages_of("rxe/uc_loss_send.atB"), "SEND 3 3 9000, 6000");
}

/// A capture that has missed packets in the middle of a WRITE, which reached the responder: RETH says how long it is.
TEST(Golden, AMessageIsAsLongAsItsHeaderSays) {
  const auto told = [](const std::set<std::size_t>& missed) {
    const Retold retold = retell_bytes(pcap("rxe/rc_write_157pkt_mtu256", {.without = missed}));
    const Numbers& n = retold.story->connections().at(0)->to_right.numbers();
    const auto& row = n.operations[static_cast<std::size_t>(Operation::kWrite)];
    return std::array{row.count, row.whole, row.bytes, n.acked_bytes};
  };
  const std::array<std::uint64_t, 4> whole{1, 1, 40'000, 40'000};
  EXPECT_EQ(told({}), whole);
  EXPECT_EQ(told({2}), whole);
  EXPECT_EQ(told({40, 41, 42, 90}), whole);
  EXPECT_EQ(told({1, 2}), (std::array<std::uint64_t, 4>{1, 0, 39'488, 39'488}));  // RETH itself is missing.
}

/// What was sent of a message that the capture does not see the end of.
TEST(Golden, TheBytesOfAMessageWithoutEndAreCounted) {
  std::vector<std::pair<std::int64_t, Octets>> frames = frames_of("rxe/rc_send_64k_mtu1024");
  frames.resize(5);
  const Retold retold = retell_bytes(pcap_of(frames));
  const Numbers& n = retold.story->connections().at(0)->to_right.numbers();
  const auto& row = n.operations[static_cast<std::size_t>(Operation::kSend)];
  EXPECT_EQ(row.whole, 0u);
  EXPECT_EQ(row.bytes, n.packets * 1024);
}

TEST(Golden, TheConnectionManagerNamesBothQps) {
  const Retold retold = retell({"rxe/cm_rping_v6"});
  ASSERT_EQ(retold.story->connections().size(), 1u);
  const Connection& connection = *retold.story->connections()[0];
  EXPECT_EQ(connection.pairing, Pairing::kManager);
  EXPECT_TRUE(connection.left.qpn && connection.right.qpn);
  EXPECT_EQ(connection.packets, 12u);
}

TEST(Golden, MessagesAreCountedWithTheirBytes) {
  const Retold retold = retell({"rxe/rc_list_mixed"});  // WRITE, SEND, READ, FAA, SEND.
  const Numbers& n = retold.story->connections().at(0)->to_right.numbers();
  const auto count = [&](Operation o) { return n.operations[static_cast<std::size_t>(o)].completed; };
  EXPECT_EQ(count(Operation::kSend), 2u);
  EXPECT_EQ(count(Operation::kWrite), 1u);
  EXPECT_EQ(count(Operation::kRead), 1u);
  EXPECT_EQ(count(Operation::kFetchAdd), 1u);
  EXPECT_EQ(n.unanswered, 0u);
  EXPECT_EQ(n.latency.count(), 5u);
}

TEST(Golden, WhatWasLostIsSaidWhereTheAnswersTell) {
  const auto finding = [](const std::string& name) {
    const Retold retold = retell({name});
    return retold.story->connections().at(0)->to_right.numbers().rounds.at(0).finding;
  };
  EXPECT_EQ(finding("rxe/loss_send_last.atA"), "PSN 0x107 was lost, or a NAK for it");
  EXPECT_THAT(finding("rxe/loss_ack_send.atA"), testing::HasSubstr("an answer was lost"));
  EXPECT_EQ(finding("rxe/loss_send_only.atA"), "a request or its answer was lost");
}

TEST(Golden, FailuresAreNamed) {
  const auto failure = [](const std::string& name) {
    return retell({name}).story->connections().at(0)->to_right.failure();
  };
  EXPECT_THAT(failure("rxe/loss_retry_exceeded.atA"), testing::HasSubstr("4 transmissions of PSN 0x100, no answer"));
  EXPECT_THAT(failure("rxe/rc_rnr_exceeded"), testing::HasSubstr("RNR_RETRY_EXC_ERR"));
  EXPECT_THAT(failure("rxe/rc_err_write_bad_rkey"), testing::HasSubstr("remote access error"));
  EXPECT_EQ(failure("rxe/loss_nak.atA"), "");
}

}  // namespace
}  // namespace uroce::explain::test
