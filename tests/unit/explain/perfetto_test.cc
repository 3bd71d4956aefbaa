// SPDX-License-Identifier: Apache-2.0
// The trace for viewers: valid JSON, with names for all tracks, and slices that viewers can show.
#include "tools/explain/words/perfetto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/unit/explain/retold.h"

namespace uroce::explain::test {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;

struct Trace {
  json document;
  std::vector<json> events;

  std::vector<json> of(const std::string& phase, const std::string& category = {}) const {
    std::vector<json> some;
    for (const json& event : events) {
      if (event["ph"] == phase && (category.empty() || event["cat"] == category)) some.push_back(event);
    }
    return some;
  }
  /// "A 10.0.0.1 QP 0x11", in the order in which viewers show them.
  std::vector<std::string> tracks() const {
    std::map<std::pair<int, int>, std::string> names;
    std::map<int, int> indices;
    for (const json& event : of("M")) {
      if (event["name"] == "thread_sort_index") indices[event["tid"]] = event["args"]["sort_index"];
    }
    for (const json& event : of("M")) {
      if (event["name"] == "thread_name") names[{event["pid"], indices[event["tid"]]}] = event["args"]["name"];
    }
    std::vector<std::string> ordered;
    for (const auto& [index, name] : names) ordered.push_back(name);
    return ordered;
  }
  std::vector<std::string> names(const std::string& phase, const std::string& category) const {
    std::vector<std::string> all;
    for (const json& event : of(phase, category)) all.push_back(event["name"]);
    return all;
  }
};

Trace trace_of(const std::vector<std::string>& captures, const Filter& filter = {}) {
  const std::string path = testing::TempDir() + "perfetto_" + std::to_string(::getpid()) + ".json";
  const Retold told = retell(captures);
  Perfetto perfetto(path, *told.names, filter);
  for (const Line& line : told.lines) {
    for (const Finished& message : line.told.finished) perfetto.finished(message, line.told.connection, *told.story);
    perfetto.packet(line.packet, line.told, *told.story);
  }
  perfetto.end(*told.story, told.files);
  EXPECT_EQ(perfetto.error(), "");
  Trace trace;
  trace.document = json::parse(std::ifstream(path));
  for (const json& event : trace.document["traceEvents"]) trace.events.push_back(event);
  std::filesystem::remove(path);
  return trace;
}

/// What viewers ask for: each slice ends at or after its begin and overlaps no other one of its track, each track has a
/// name, and each arrow an end where a packet is.
void expect_showable(const Trace& trace, const std::string& name) {
  SCOPED_TRACE(name);
  std::map<int, std::vector<std::pair<double, double>>> slices;
  std::set<int> used, named;
  std::set<std::pair<int, double>> packets;
  std::map<int, std::string> arrows;
  for (const json& event : trace.events) {
    const std::string phase = event["ph"];
    if (phase == "M") {
      const int track = event["tid"];
      if (event["name"] == "thread_name" && !named.insert(track).second) ADD_FAILURE() << event;
      continue;
    }
    ASSERT_GE(event["ts"].get<double>(), 0) << event;
    used.insert(event["tid"].get<int>());
    if (phase == "X") {
      const double begin = event["ts"], length = event["dur"];
      ASSERT_GE(length, 0) << event;
      slices[event["tid"]].emplace_back(begin, begin + length);
    } else if (phase == "i") {
      packets.emplace(event["tid"], event["ts"]);
    } else {
      arrows[event["id"]] += phase;
      EXPECT_TRUE(packets.contains({event["tid"], event["ts"]})) << event;
    }
  }
  for (auto& [track, all] : slices) {
    std::sort(all.begin(), all.end());
    for (std::size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i].first, all[i - 1].second - 1e-6) << "track " << track;
  }
  for (const auto& [id, phases] : arrows) EXPECT_EQ(phases, "sf") << id;
  EXPECT_EQ(used, named);
}

/// The members that the Trace Event Format asks for in an event of each phase, and no other one.
void expect_well_formed(const Trace& trace, const std::string& name) {
  SCOPED_TRACE(name);
  const std::map<std::string, std::set<std::string>> members{
      {"M", {"ph", "pid", "tid", "name", "args"}},
      {"X", {"ph", "pid", "tid", "ts", "dur", "name", "cat", "args"}},
      {"i", {"ph", "s", "pid", "tid", "ts", "name", "cat", "args"}},
      {"s", {"ph", "id", "pid", "tid", "ts", "name", "cat"}},
      {"f", {"ph", "bp", "id", "pid", "tid", "ts", "name", "cat"}}};
  std::map<int, int> process_of;
  for (const json& event : trace.events) {
    ASSERT_TRUE(members.contains(event["ph"])) << event;
    std::set<std::string> found;
    for (const auto& [member, value] : event.items()) found.insert(member);
    const bool of_process = event["ph"] == "M" && event["name"].get<std::string>().starts_with("process_");
    if (of_process) found.insert("tid");
    EXPECT_EQ(found, members.at(event["ph"])) << event;
    for (const std::string number : {"pid", "tid", "id"}) {
      if (!event.contains(number)) continue;
      EXPECT_TRUE(event[number].is_number_unsigned()) << event;
      EXPECT_LT(event[number].get<std::uint64_t>(), std::uint64_t{1} << 32) << event;
    }
    for (const std::string time : {"ts", "dur"}) {
      if (event.contains(time)) {
        EXPECT_TRUE(event[time].is_number()) << event;
      }
    }
    if (event["ph"] == "i") {
      EXPECT_EQ(event["s"], "t") << event;
    }
    if (event["ph"] == "f") {
      EXPECT_EQ(event["bp"], "e") << event;
    }
    if (of_process || !event.contains("tid")) continue;
    // Viewers know a thread by its number alone.
    const auto [at, fresh] = process_of.try_emplace(event["tid"], event["pid"]);
    EXPECT_EQ(at->second, event["pid"].get<int>()) << event;
  }
}

/// Perfetto's importer goes over the events by time, those of one time as they are in the file, and binds each end of
/// an arrow to the slice or instant that began last on its track (its flow_tracker and slice_tracker).
void expect_arrows_at_packets(const Trace& trace, const std::string& name) {
  SCOPED_TRACE(name);
  std::vector<json> events;
  for (const json& event : trace.events) {
    if (event["ph"] != "M") events.push_back(event);
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const json& a, const json& b) { return a["ts"].get<double>() < b["ts"].get<double>(); });
  std::map<int, json> newest;
  for (const json& event : events) {
    const int track = event["tid"];
    if (event["ph"] == "X" || event["ph"] == "i") {
      newest[track] = event;
      continue;
    }
    ASSERT_TRUE(newest.contains(track)) << event;
    EXPECT_EQ(newest[track]["ph"], "i") << event;
    EXPECT_EQ(newest[track]["ts"], event["ts"]) << event;
  }
}

TEST(Perfetto, CanBeShownForEveryCapture) {
  std::size_t slices = 0;
  for (const std::string& name : all_captures()) {
    const Trace trace = trace_of({name});
    expect_showable(trace, name);
    expect_well_formed(trace, name);
    expect_arrows_at_packets(trace, name);
    slices += trace.of("X").size();
  }
  EXPECT_GT(slices, 500u);
}

/// What each capture comes to in a viewer.
struct Case {
  std::vector<std::string> captures;
  std::vector<std::string> tracks;
  std::vector<std::string> messages;
  std::vector<std::string> waits;
  std::size_t packets, again, refusals, lost;
};

TEST(Perfetto, TracksAndSlices) {
  const std::vector<Case> cases{
      {{"rxe/loss_send_middle.atA"},
       {"A 10.77.0.11 QP 0x86", "A waits", "A messages", "B 10.77.0.12 QP 0x85"},
       {"SEND 1"},
       {"goes back for a NAK"},
       15,
       5,
       1,
       0},
      {{"rxe/loss_ack_send.atA", "rxe/loss_ack_send.atB"},
       {"A 10.77.0.11 QP 0x90", "A waits", "A messages", "B 10.77.0.12 QP 0x8f"},
       {"SEND 1"},
       {"waits for an answer: timeout"},
       10,
       3,
       0,
       1},
      {{"rxe/rc_err_write_bad_rkey"},
       {"A 10.77.0.11 QP 0x52", "A messages", "A messages 2", "B 10.77.0.12 QP 0x52"},
       {"RDMA WRITE 1 NOT COMPLETED", "SEND 2 NOT COMPLETED"},
       {},
       3,
       0,
       1,
       0},
      {{"rnr"},
       {"A 10.0.0.1 QP 0x11", "A waits", "A messages", "B 10.0.0.2 QP 0x11"},
       {"SEND 1"},
       {"waits: receiver not ready"},
       4,
       1,
       1,
       0},
  };
  for (const Case& expected : cases) {
    SCOPED_TRACE(expected.captures[0]);
    const Trace trace = trace_of(expected.captures);
    expect_showable(trace, expected.captures[0]);
    EXPECT_EQ(trace.tracks(), expected.tracks);
    EXPECT_EQ(trace.names("X", "message"), expected.messages);
    EXPECT_EQ(trace.names("X", "wait"), expected.waits);
    EXPECT_EQ(trace.of("i").size(), expected.packets);
    EXPECT_EQ(trace.of("i", "again").size(), expected.again);
    EXPECT_EQ(trace.of("i", "refusal").size(), expected.refusals);
    EXPECT_EQ(trace.of("i", "lost").size(), expected.lost);
  }
}

TEST(Perfetto, TimesAreMicrosecondsOfTheRun) {
  const Trace trace = trace_of({"rxe/loss_ack_send.atA", "rxe/loss_ack_send.atB"});
  const json wait = trace.of("X", "wait").at(0);
  EXPECT_NEAR(wait["dur"].get<double>(), 291'000, 1000);
  EXPECT_THAT(wait["args"]["why"].get<std::string>(), HasSubstr("no answer for 291 ms"));
  const json message = trace.of("X", "message").at(0);
  EXPECT_EQ(message["ts"], 0);
  EXPECT_EQ(message["args"]["bytes"], 3000);
  EXPECT_NEAR(message["dur"].get<double>(), 292'000, 1000);
  EXPECT_GT(trace.document["otherData"]["start_ns"].get<std::int64_t>(), std::int64_t{1'600'000'000} * 1'000'000'000);
}

TEST(Perfetto, ArrowsGoFromARequestToItsAnswerAndFromACauseToWhatIsSentAgain) {
  const Trace trace = trace_of({"rxe/loss_send_middle.atA"});
  std::map<std::string, int> arrows;
  for (const json& event : trace.of("s")) ++arrows[event["name"]];
  EXPECT_EQ(arrows["cause"], 1);
  EXPECT_GE(arrows["answer"], 1);
}

TEST(Perfetto, ManyMessagesAtOnceTakeRows) {
  const Trace trace = trace_of({"rxe/rc_list8_last_signalled"});
  EXPECT_THAT(trace.tracks(), Contains("A messages 8"));
  EXPECT_EQ(trace.names("X", "message").size(), 8u);
}

TEST(Perfetto, ConnectionManagerHasTracksOfItsOwn) {
  const Trace trace = trace_of({"rxe/cm_rping_v4"});
  EXPECT_THAT(trace.tracks(), Contains("10.77.0.11"));
  EXPECT_FALSE(trace.of("i", "management").empty());
}

TEST(Perfetto, SaysWhereItCannotWrite) {
  const Names names(false);
  const Perfetto perfetto("/no/such/directory/trace.json", names, {});
  EXPECT_THAT(perfetto.error(), HasSubstr("can't write /no/such/directory/trace.json: No such file"));
}

}  // namespace
}  // namespace uroce::explain::test
