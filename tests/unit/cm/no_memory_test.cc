// SPDX-License-Identifier: Apache-2.0
// A manager that finds no memory, wherever it asks for it. What it was doing is not done, or done as a whole: the same
// call again goes on as if there had always been enough.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>

#include "proto/cm/message.h"
#include "tests/support/operator_new.h"
#include "verbs/cm/cm.h"

namespace {

/// How often memory can be had; -1: always.
int allocations_left = -1;

}  // namespace

bool uroce::test::may_allocate() {
  if (allocations_left <= 0) return allocations_left < 0;
  --allocations_left;
  return true;
}

namespace uroce::cm::test {
namespace {

using namespace std::chrono_literals;
namespace wire = proto::cm;
using Kind = Event::Kind;

const Gid kGids[] = {Gid::from_v4(10, 77, 0, 11), Gid::from_v4(10, 77, 0, 12)};
constexpr std::uint64_t kService = 0x0106'1B58, kUdService = 0x0111'1B58;

struct Shortage {
  explicit Shortage(int enough) { allocations_left = enough; }
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;
  ~Shortage() { allocations_left = -1; }
};

/// Two managers, of a client and a server, and all that they send and tell.
class Pair {
 public:
  explicit Pair(bool is_short) : is_short_(is_short) {}

  /// Calls with memory for 0, 1, 2 ... allocations, until there is enough.
  template <class Call>
  auto call(Call call) {
    for (int enough = 0;; ++enough) {
      try {
        const Shortage shortage(is_short_ ? enough : -1);
        return call();
      } catch (const std::bad_alloc&) {
      }
    }
  }
  /// The same, for what has no result; and what comes of it.
  void run(const std::function<void()>& what) {
    call([&] { return what(), true; });
    settle();
  }
  void pass(Duration time) {
    const Instant end = now + time;
    while (true) {
      std::optional<Instant> next;
      for (Cm* const cm : {&client, &server}) {
        const auto deadline = cm->next_deadline();
        if (deadline && *deadline <= end) next = next ? std::min(*next, *deadline) : *deadline;
      }
      if (!next) break;
      now = std::max(now, *next);
      run([&] { client.on_timeout(now); });
      run([&] { server.on_timeout(now); });
    }
    now = end;
  }
  void settle() {
    for (bool is_moving = true; is_moving;) {
      is_moving = carry(client, server);
      is_moving = carry(server, client) || is_moving;
    }
    note_events("client", client);
    note_events("server", server);
  }
  Id connect(std::uint32_t qpn) {
    ConnectRequest request;
    request.service_id = kService;
    request.local = {kGids[0], 40000};
    request.remote = {kGids[1], 7000};
    request.params.qpn = qpn;
    const Id id = *call([&] { return client.connect(request, now); });
    settle();
    return id;
  }
  Id ask(std::uint16_t port) {
    const Id id = *call([&] {
      return client.sidr_request(
          {.service_id = kUdService, .local = {kGids[0], port}, .remote = {kGids[1], 7000}, .path = {}}, now);
    });
    settle();
    return id;
  }
  ListenerId listen(std::uint64_t service, std::uint32_t backlog = 0) {
    const Transport transport = service == kUdService ? Transport::kUd : Transport::kRc;
    const ListenerId listener =
        *call([&] { return server.listen({.service_id = service, .transport = transport, .backlog = backlog}); });
    settle();
    return listener;
  }
  void accept(Id id) {
    run([&] { server.accept(id, {.qpn = 0x22}, {}, now); });
  }
  void fetch(Id id) {
    run([&] { server.fetched(id); });
  }
  /// The server's end, whose request is the last one that it was told of.
  Id established() {
    const Id id = connect(0x11);
    fetch(last_request);
    accept(last_request);
    run([&] { client.establish(id, now); });
    return id;
  }

  static CmConfig config(std::size_t side) {
    CmConfig config;
    config.gids = {kGids[side]};
    config.guid = config.seed = side + 1;
    config.last_words = true;
    return config;
  }
  Instant now = Instant{} + 1h;
  Cm client{config(0)}, server{config(1)};
  Id last_request = 0;
  std::string loses;  ///< The next message of this name.
  std::string story;

 private:
  bool carry(Cm& from, Cm& to) {
    bool any = false;
    std::array<std::uint8_t, proto::kMaxPacketSize> frame;
    while (const auto out = from.poll_transmit(now, frame)) {
      any = true;
      const Bytes packet = Bytes(frame).first(out->size);
      const Bytes mad = proto::parse_packet(packet)->payload();
      const std::string name(wire::parse_message(mad)->info().name);
      story += (&from == &client ? "client " : "server ") + name + ' ';
      for (const std::uint8_t byte : mad) story += std::to_string(byte) + '.';
      story += '\n';
      if (name == loses) {
        loses.clear();
        continue;
      }
      call([&] { return to.on_datagram({out->path, packet}, now), true; });
    }
    return any;
  }
  void note_events(const std::string& who, Cm& cm) {
    while (const auto event = cm.poll_event()) {
      if (event->kind == Kind::kRequest) last_request = event->id;
      story += who + " is told of " + std::to_string(static_cast<int>(event->kind)) + ", status " +
               std::to_string(event->status) + ", of " + std::to_string(event->id) + '\n';
    }
    std::array<std::uint8_t, proto::kMaxPacketSize> frame;
    while (const auto words = cm.poll_last_words(frame)) {
      story += who + " leaves " + std::to_string(words->packet ? words->packet->size : 0) + " bytes for " +
               std::to_string(words->id) + '\n';
    }
  }
  const bool is_short_;
};

/// The story is the same with little memory as with enough.
void expect_no_difference(const std::function<void(Pair&)>& what) {
  Pair rich(false), poor(true);
  for (Pair* const pair : {&rich, &poor}) {
    what(*pair);
    pair->pass(200s);
    for (Cm* const cm : {&pair->client, &pair->server}) {
      pair->run([&] { cm->shutdown(pair->now); });
      EXPECT_EQ(cm->size(), 0u);
      EXPECT_FALSE(cm->next_deadline() && *cm->next_deadline() <= pair->now);
    }
  }
  EXPECT_EQ(poor.story, rich.story);
}

TEST(NoMemory, AConnectionBeginsAndEnds) {
  expect_no_difference([](Pair& p) {
    p.listen(kService);
    const Id id = p.established();
    p.run([&] { p.client.disconnect(id, p.now); });
    p.run([&] { p.server.disconnect(p.last_request, p.now); });
    p.run([&] { p.server.destroy(p.last_request, p.now); });
  });
}

TEST(NoMemory, ServersRefuse) {
  expect_no_difference([](Pair& p) {
    p.connect(0x10);  // Nobody listens.
    p.listen(kService);
    p.connect(0x11);
    p.run([&] { p.server.reject(p.last_request, RejectReason::kConsumer, {}, p.now); });
    p.connect(0x12);
    p.run([&] { p.server.destroy(p.last_request, p.now); });
    const Id id = p.connect(0x13);
    p.accept(p.last_request);
    p.run([&] { p.client.reject(id, RejectReason::kConsumer, {}, p.now); });
  });
}

// The REQ comes again, the REP comes again, the RTU never comes, and a REJ says so.
TEST(NoMemory, MessagesAreLost) {
  for (const char* const message : {"REQ", "REP", "RTU", "DREQ", "DREP", "REJ"}) {
    expect_no_difference([message](Pair& p) {
      p.listen(kService);
      p.loses = message;
      const Id id = p.connect(0x11);
      p.pass(5s);
      p.fetch(p.last_request);
      p.pass(5s);  // A MRA.
      p.accept(p.last_request);
      p.pass(10s);
      p.run([&] { p.client.establish(id, p.now); });
      p.pass(10s);
      p.run([&] { p.server.disconnect(p.last_request, p.now); });
      p.run([&] { p.client.disconnect(id, p.now); });
    });
  }
}

TEST(NoMemory, APeerHasANewLife) {
  expect_no_difference([](Pair& p) {
    p.listen(kService);
    p.established();
    const Id second = p.connect(0x11);  // The same QP.
    EXPECT_EQ(p.client.query(second)->state, State::kIdle);
  });
}

TEST(NoMemory, RequestsWaitForAPlace) {
  expect_no_difference([](Pair& p) {
    p.listen(kService, 1);
    const Id first = p.connect(0x11);
    std::deque<Id> more;
    for (std::uint32_t i = 1; i <= 4; ++i) more.push_back(p.connect(0x11 + i));
    p.run([&] { p.client.destroy(more[1], p.now); });  // It no longer waits.
    p.fetch(p.last_request);
    p.pass(1s);
    p.fetch(p.last_request);
    p.pass(5s);  // The others are given up, and ask again.
    p.fetch(p.last_request);
    p.run([&] { p.client.destroy(first, p.now); });
  });
}

TEST(NoMemory, RequestsWaitForTheNextListener) {
  expect_no_difference([](Pair& p) {
    ListenerId listener = p.listen(kService, 2);
    for (std::uint32_t i = 0; i < 5; ++i) p.connect(0x11 + i);
    p.run([&] { p.server.unlisten(listener, p.now); });
    p.connect(0x17);
    listener = p.listen(kService, 2);
    p.pass(100ms);
    p.run([&] { p.server.unlisten(listener, p.now); });
    p.pass(2s);  // Nobody comes.
  });
}

TEST(NoMemory, Datagrams) {
  expect_no_difference([](Pair& p) {
    p.ask(1);  // Nobody listens.
    const ListenerId listener = p.listen(kUdService, 1);
    p.loses = "SIDR_REP";
    for (std::uint16_t port = 2; port < 5; ++port) p.ask(port);
    p.fetch(p.last_request);
    p.run([&] { p.server.sidr_reply(p.last_request, {.qpn = 7, .qkey = 8}, p.now); });
    p.pass(5s);
    p.fetch(p.last_request);
    p.run([&] { p.server.unlisten(listener, p.now); });
  });
}

}  // namespace
}  // namespace uroce::cm::test
