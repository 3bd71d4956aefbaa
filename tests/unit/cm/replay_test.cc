// SPDX-License-Identifier: Apache-2.0
// The captures of the kernel's connection manager as behaviour: ours in the place of the active, then of the passive
// side. Nothing may differ: as_kernel is on.
#include "tests/unit/cm/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "proto/address.h"
#include "proto/frame.h"
#include "tests/unit/proto/golden.h"

namespace uroce::cm::test {
namespace {

using namespace std::string_literals;
using proto::test::GoldenFrame;

struct Case {
  std::string folder, capture, topic;
  char side = 'A';
};
std::string name_of(const Case& c) { return (c.side == 'A' ? "active_" : "passive_") + c.topic; }
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << name_of(c); }

bool is_dreq(const Captured& message) { return message.view().attribute() == proto::cm::Attribute::kDreq; }

std::vector<Captured> messages_of(const Case& c) {
  const auto frames =
      c.folder == "rxe" ? proto::test::frames_of(c.capture) : proto::test::connection_frames_of(c.capture);
  std::vector<Captured> out;
  for (const GoldenFrame& golden : frames) {
    const auto frame = proto::parse_frame(golden.bytes);
    if (!frame) continue;
    const auto packet = proto::parse_packet(frame->packet);
    if (!packet || packet->dest_qp() != proto::cm::kManagementQpn) continue;
    const auto message = proto::cm::parse_message(*packet);
    if (!message) continue;
    Captured captured;
    captured.time = Instant(std::chrono::nanoseconds(golden.time_ns));
    captured.ours = proto::to_string(frame->fields.path.source).ends_with(c.side == 'A' ? "11" : "12");
    captured.path = frame->fields.path;
    captured.mad.assign(message->bytes().begin(), message->bytes().end());
    out.push_back(captured);
  }
  // Two DREQs that cross: ours was on its way when the other one came.
  for (std::size_t i = 1; i < out.size(); ++i) {
    const bool cross = !out[i - 1].ours && out[i].ours && is_dreq(out[i - 1]) && is_dreq(out[i]);
    if (cross && out[i].time - out[i - 1].time < std::chrono::milliseconds(20)) std::swap(out[i - 1], out[i]);
  }
  return out;
}

/// Each topic, as seen at the side that is replaced where there are two captures.
std::vector<Case> cases() {
  std::vector<Case> out;
  const auto add = [&out](const std::string& folder, const std::vector<GoldenFrame>& frames) {
    std::set<std::string> captures;
    for (const GoldenFrame& frame : frames) captures.insert(frame.capture);
    for (const std::string& capture : captures) {
      const std::string topic = capture.substr(0, capture.find('.'));
      if (folder == "rxe" && topic.find("cm_") == std::string::npos) continue;
      for (const char side : {'A', 'B'}) {
        const std::string own = topic + ".at" + side + ".pcap";
        if (captures.contains(own) && own != capture) continue;
        Case c{folder, capture, topic, side};
        const auto messages = messages_of(c);
        if (std::any_of(messages.begin(), messages.end(), [](const Captured& m) { return m.ours; })) out.push_back(c);
      }
    }
  };
  add("rxe", proto::test::golden_frames());
  add("rxe_cm", proto::test::connection_frames());
  return out;
}

ReplayResult replay(const Case& c) {
  const std::uint64_t guid = c.side == 'A' ? 0x505400fffe770011u : 0x505400fffe770012u;
  return replay(messages_of(c), guid, c.topic == "backlog2" ? 2 : 0);
}

/// What the program of this side saw, without resolving addresses and routes.
std::vector<std::string> seen_by_program(const Case& c) {
  std::ifstream file(std::filesystem::path(UROCE_SOURCE_DIR) / "pcaps" / c.folder / (c.topic + ".txt"));
  std::vector<std::string> events;
  bool ours = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) ours = line.find(std::string("(") + c.side + ')') != std::string::npos;
    const std::size_t at = line.find("RDMA_CM_EVENT_");
    if (!ours || at == std::string::npos) continue;
    const std::string text = line.substr(at + 14);
    const std::string name = text.substr(0, text.find(' '));
    if (name.starts_with("ADDR_") || name.starts_with("ROUTE_")) continue;
    const std::size_t status = text.find("status=") + 7;
    events.push_back(name + ' ' + text.substr(status, text.find(' ', status) - status));
  }
  return events;
}

/// What no program fetched, or another program than the one that the record is of.
std::string rest_of(const std::string& topic) {
  if (topic == "listener_gone") return "CONNECT_REQUEST 0";
  return topic == "ud_nolisten" ? "REJECTED 8" : "";
}

class CmReplay : public testing::TestWithParam<Case> {};

TEST_P(CmReplay, IsWhatTheKernelDid) {
  const Case& c = GetParam();
  const ReplayResult result = replay(c);
  EXPECT_THAT(result.differences, testing::IsEmpty());
  EXPECT_GT(result.compared, 0u);
  if (c.folder == "rxe") return;
  const std::vector<std::string> wanted = seen_by_program(c);
  std::vector<std::string> events = result.events;
  // librdmacm makes one of the other, if the program's QP is its own.
  if (c.topic != "norep") std::replace(events.begin(), events.end(), "CONNECT_RESPONSE 0"s, "ESTABLISHED 0"s);
  ASSERT_GE(events.size(), wanted.size()) << testing::PrintToString(events);
  EXPECT_THAT(std::vector(events.begin(), events.begin() + std::ssize(wanted)), testing::ElementsAreArray(wanted));
  // Programs that end, or destroy their ID, do not see the rest.
  for (std::size_t i = wanted.size(); i < events.size(); ++i) {
    EXPECT_THAT(events[i], testing::AnyOf("DISCONNECTED 0", "TIMEWAIT_EXIT 0", rest_of(c.topic)));
  }
}

INSTANTIATE_TEST_SUITE_P(Captures, CmReplay, testing::ValuesIn(cases()),
                         [](const auto& param) { return name_of(param.param); });

TEST(CmReplays, CompareAndFeedEverything) {
  EXPECT_EQ(cases().size(), 84u);
  std::size_t messages = 0;
  for (const Case& c : cases()) {
    const ReplayResult result = replay(c);
    EXPECT_EQ(result.compared + result.fed, messages_of(c).size()) << c;
    messages += result.compared;
  }
  EXPECT_EQ(messages, 258u);
}

}  // namespace
}  // namespace uroce::cm::test
