// SPDX-License-Identifier: Apache-2.0
// Two connection managers on a simulated wire in virtual time: what is sent, what the programs are told, and when.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "engine/sim/world.h"
#include "proto/cm/message.h"
#include "verbs/cm/cm.h"
#include "verbs/cm/connection.h"

namespace uroce::cm::test {

using namespace std::chrono_literals;
namespace wire = proto::cm;
using wire::Attribute;
using Kind = Event::Kind;
using testing::ElementsAre;
using testing::IsEmpty;

inline const Gid kGidA = Gid::from_v4(10, 77, 0, 11), kGidB = Gid::from_v4(10, 77, 0, 12);
inline constexpr std::uint64_t kService = 0x0106'1B58;  ///< TCP port space, port 7000.
inline constexpr std::uint64_t kUdService = 0x0111'1B58;

inline PrivateData data(std::initializer_list<std::uint8_t> bytes) {
  PrivateData out;
  out.size = static_cast<std::uint8_t>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), out.bytes.begin());
  return out;
}

/// What the tests connect and accept with.
inline const ConnectionParams kActive{
    .qpn = 0x11, .responder_resources = 3, .initiator_depth = 2, .retry_count = 6, .rnr_retry_count = 5};
inline const ConnectionParams kPassive{
    .qpn = 0x22, .responder_resources = 4, .initiator_depth = 1, .rnr_retry_count = 7};

class Lab : public testing::Test {
 protected:
  struct Side {
    Side(const Gid& gid, std::uint64_t guid, bool as_kernel, Instant may_listen_until) : address(gid) {
      CmConfig config;
      config.gids = {gid};
      config.guid = guid;
      config.seed = guid;
      config.as_kernel = as_kernel;
      config.may_listen_until = may_listen_until;
      config.is_deserted = [this](const Gid& peer) { return deserted == peer; };
      config.last_words = true;
      cm.emplace(config);
    }
    Gid address;
    std::optional<Gid> deserted;
    std::optional<Cm> cm;
    engine::sim::NodeId node = 0;
    std::deque<Event> events;
  };
  /// A message as it was sent.
  struct Sent {
    Duration at;       ///< Since the start.
    std::string what;  ///< "a REQ"
    std::vector<std::uint8_t> mad;
  };

  explicit Lab(bool as_kernel = false, Duration may_listen_for = {})
      : a(kGidA, 0xA, as_kernel, world.now()),
        b(kGidB, 0xB, as_kernel, world.now() + may_listen_for),
        start_(world.now()) {
    a.node = world.attach(*a.cm, {kGidA});
    b.node = world.attach(*b.cm, {kGidB});
    world.set_on_step([this](engine::sim::NodeId node) { collect(node == a.node ? a : b); });
    world.set_tap([this](engine::sim::TapPoint point, const engine::sim::Packet& packet, Instant now) {
      if (point == engine::sim::TapPoint::kSent) record(packet, now);
    });
    world.set_filter([this](engine::sim::Packet& packet, Instant now) { return judge(packet, now); });
  }

  static std::string name_of(Bytes packet) {
    const auto parsed = proto::parse_packet(packet);
    const auto message = wire::parse_message(*parsed);
    return message ? std::string(message->info().name) : "?";
  }

  /// Loses the `first`-th to `last`-th packet of this name ("a REQ"), counted from 1.
  void lose(const std::string& what, int first = 1, int last = 1) {
    rules_[what] = [first, last](int nth) {
      return nth >= first && nth <= last ? engine::sim::Verdict::drop() : engine::sim::Verdict::pass();
    };
  }
  /// A copy of the first one arrives 1 ms later.
  void duplicate(const std::string& what) {
    rules_[what] = [](int nth) { return nth == 1 ? engine::sim::Verdict::duplicate() : engine::sim::Verdict::pass(); };
  }

  // --- calls, with the kick that must follow ---
  ListenerId listen(std::uint32_t backlog = 0) {
    const auto listener = b.cm->listen({.service_id = kService, .backlog = backlog});
    EXPECT_TRUE(listener.ok());
    return *listener;
  }
  ConnectRequest request_to_b() const {
    ConnectRequest request;
    request.service_id = kService;
    request.local = {kGidA, 40000};
    request.remote = {kGidB, 7000};
    request.params = kActive;
    request.private_data = data({1, 2, 3});
    return request;
  }
  Id connect(ConnectRequest request) {
    const auto id = a.cm->connect(request, world.now());
    EXPECT_TRUE(id.ok());
    settle(a);
    return *id;
  }
  Id connect() { return connect(request_to_b()); }
  Errno accept(Id id, ConnectionParams params = kPassive) {
    const Errno error = b.cm->accept(id, params, data({7, 8}), world.now());
    settle(b);
    return error;
  }
  Errno establish(Id id) {
    const Errno error = a.cm->establish(id, world.now());
    settle(a);
    return error;
  }
  Errno reject(Side& side, Id id, PrivateData private_data = data({9})) {
    const Errno error = side.cm->reject(id, RejectReason::kConsumer, private_data, world.now());
    settle(side);
    return error;
  }
  void disconnect(Side& side, Id id) {
    EXPECT_EQ(side.cm->disconnect(id, world.now()), 0);
    settle(side);
  }
  void destroy(Side& side, Id id) {
    side.cm->destroy(id, world.now());
    settle(side);
  }
  void run(Duration time) { world.run_for(time); }
  /// Until nothing is under way, timers excepted.
  void settle(Side& side) {
    world.kick(side.node);
    collect(side);
    run(1ms);
  }

  /// The next event of a side, which must be of this kind.
  Event expect(Side& side, Kind kind) {
    if (side.events.empty()) {
      ADD_FAILURE() << "no event of kind " << static_cast<int>(kind);
      return {};
    }
    const Event event = side.events.front();
    side.events.pop_front();
    EXPECT_EQ(static_cast<int>(event.kind), static_cast<int>(kind)) << "status " << event.status;
    return event;
  }
  /// Connects; both ids.
  std::pair<Id, Id> established() {
    const Id id_a = connect();
    const Event request = expect(b, Kind::kRequest);
    b.cm->fetched(request.id);
    EXPECT_EQ(accept(request.id), 0);
    expect(a, Kind::kResponse);
    EXPECT_EQ(establish(id_a), 0);
    expect(b, Kind::kEstablished);
    sent.clear();
    return {id_a, request.id};
  }
  State state(Side& side, Id id) const {
    const auto info = side.cm->query(id);
    return info ? info->state : State::kIdle;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Sent& s : sent) all.push_back(s.what);
    return all;
  }
  std::vector<Duration> times_of(const std::string& what) const {
    std::vector<Duration> all;
    for (const Sent& s : sent) {
      if (s.what == what) all.push_back(s.at);
    }
    return all;
  }
  /// The last message of this name.
  wire::MessageView last(const std::string& what) const {
    for (auto it = sent.rbegin(); it != sent.rend(); ++it) {
      if (it->what == what) return *wire::parse_message(it->mad);
    }
    throw std::runtime_error("nobody sent " + what);
  }
  /// Hands B a message as if `source` had sent it.
  void inject(Side& to, const Gid& source, Bytes mad, std::uint32_t qkey = wire::kManagementQkey) {
    proto::Path path;
    path.source = source;
    path.destination = to.address;
    std::vector<std::uint8_t> frame(proto::kMaxPacketSize);
    proto::PacketBuilder packet(frame, proto::Opcode::kUdSendOnly);
    packet.bth().set<proto::Bth::DestQp>(1);
    packet.header<proto::Deth>().set<proto::Deth::QKey>(qkey).set<proto::Deth::SourceQp>(1);
    std::ranges::copy(mad, packet.payload(mad.size()).begin());
    frame.resize(packet.finish(path));
    to.cm->on_datagram({path, frame}, world.now());
    settle(to);
  }
  /// Both sides hold nothing any more, once everything has run out.
  void expect_nothing_left() {
    run(120s);
    EXPECT_EQ(a.cm->size(), 0u);
    EXPECT_EQ(b.cm->size(), 0u);
    EXPECT_FALSE(a.cm->next_deadline());
    EXPECT_FALSE(b.cm->next_deadline());
  }

  engine::sim::World world;
  Side a, b;
  std::vector<Sent> sent;

 private:
  void collect(Side& side) {
    while (const auto event = side.cm->poll_event()) side.events.push_back(*event);
  }
  void record(const engine::sim::Packet& packet, Instant now) {
    const auto parsed = proto::parse_packet(packet.bytes);
    const Bytes mad = parsed->payload();
    sent.push_back({now - start_, label(packet), {mad.begin(), mad.end()}});
  }
  std::string label(const engine::sim::Packet& packet) const {
    return (packet.from == a.node ? "a " : "b ") + name_of(packet.bytes);
  }
  engine::sim::Verdict judge(const engine::sim::Packet& packet, Instant) {
    const std::string what = label(packet);
    const int nth = ++seen_[what];
    const auto rule = rules_.find(what);
    return rule == rules_.end() ? engine::sim::Verdict::pass() : rule->second(nth);
  }

  const Instant start_;
  std::map<std::string, int> seen_;
  std::map<std::string, std::function<engine::sim::Verdict(int nth)>> rules_;
};

/// The same as Linux has it.
class KernelLab : public Lab {
 protected:
  KernelLab() : Lab(true) {}
};

}  // namespace uroce::cm::test
