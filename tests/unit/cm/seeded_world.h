// SPDX-License-Identifier: Apache-2.0
// Hosts whose programs connect, accept, reject, disconnect, destroy and die as a seed says, over a wire that loses,
// doubles, delays and damages. Judged as it goes, and when nothing moves any more.
//
// What a program does, it does through its connection manager alone. The judge knows both ends.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/sim/world.h"
#include "verbs/cm/cm.h"

namespace uroce::cm::test {

/// What was done, so that nobody takes doing nothing for being right.
struct Tally {
  std::uint64_t connects = 0, established = 0, rejected = 0, disconnected = 0, deaths = 0, lost = 0, answers = 0;
};

class SeededWorld {
 public:
  explicit SeededWorld(std::uint64_t seed);
  ~SeededWorld();
  SeededWorld(const SeededWorld&) = delete;
  SeededWorld& operator=(const SeededWorld&) = delete;

  /// The first thing that was wrong, or nothing.
  std::string run();
  const Tally& tally() const { return tally_; }

 private:
  struct Host;
  /// One side of a connection, as its program knows it, and what a judge has to know besides.
  struct End {
    Host* host = nullptr;
    int life = 0;  ///< Which one of the host's program.
    Id id = 0;
    std::uint32_t attempt = 0;
    bool active = false;
    End* peer = nullptr;       ///< Active: whose REP it got. Passive: who asked.
    bool fetched = false;      ///< Passive: its program has seen the request.
    bool established = false;  ///< It said so, or was told so.
    bool refused = false;      ///< Its program rejected or destroyed it before that.
    bool closed = false;       ///< Its program disconnected or destroyed it.
    bool destroyed = false;
    bool reject_lost = false;  ///< A REJ of it got lost: nobody repeats one.
    std::vector<Event::Kind> told{};
    Instant told_at{};

    bool was_told(Event::Kind kind) const;
    bool was_told_end() const;
    bool is_open() const { return established && !closed && !was_told_end(); }
  };
  /// One connect().
  struct Attempt {
    Host *client = nullptr, *server = nullptr;
    ConnectRequest request{};
    End* active = nullptr;
    std::vector<End*> passive{};
    bool datagrams = false;
  };

  // What programs do.
  void begin_attempt();
  void fetch(End& end);
  void serve(End& end);
  void answer(End& end);
  void go_on(End& end);
  void end_some_time(End& end);
  void destroy_soon(End& end);
  void destroy(End& end);
  void die(Host& host);
  void stop_listening_for_a_while(Host& host);
  void listen(Host& host);

  // What they are told.
  void collect(Host& host);
  void on_event(Host& host, const Event& event);
  void on_request(Host& host, const Event& event);
  void on_response(End& end, const Event& event);
  void on_established(End& end, const Event& event);
  void judge_order(End& end, const Event& event);
  void judge_rejected(const End& end, int reason);
  void judge_unreachable(const End& end, int status);
  void judge_crossing(const End& active, const End& passive);
  void judge_rest();
  void judge_sent(const engine::sim::Packet& packet, Instant now);
  void note_lost(const engine::sim::Packet& packet);

  /// Calls `what` after up to `most`, or at once, if the end is then still there.
  void later(End& end, Duration most, void (SeededWorld::*what)(End&));
  End& add_end(Host& host, Id id, std::uint32_t attempt, bool active);
  bool is_alive(const End& end) const;
  Cm& cm(const End& end) const;
  void called(const End& end);
  void wrong(const End& end, const std::string& what);
  void wrong(const std::string& what);
  Duration up_to(Duration most);

  engine::sim::Random random_;
  engine::sim::World world_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<Attempt> attempts_;
  std::map<std::pair<Host*, Id>, std::unique_ptr<End>> ends_;  ///< In the current lives.
  std::vector<std::unique_ptr<End>> former_;                   ///< Programs that are dead had them.
  std::map<std::string, std::vector<Instant>> sent_;           ///< Messages that timers repeat, by their bytes.
  bool anybody_died_ = false;
  Tally tally_;
  std::string wrong_;
};

}  // namespace uroce::cm::test
