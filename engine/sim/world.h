// SPDX-License-Identifier: Apache-2.0
// A deterministic network of NICs in virtual time. The same NICs, calls and seed give the same packets, whatever the
// machine: events are ordered by (time, sequence number) and nothing asks for the real time.
//
//     sim::World world({.seed = 7});
//     const NodeId a = world.attach(nic_a, {gid_a});
//     const NodeId b = world.attach(nic_b, {gid_b});
//     nic_a.post_send(qp, wr, world.now());
//     world.kick(a);  // after every call that may have produced packets or an earlier deadline
//     ASSERT_EQ(world.run_until([&] { return done; }, 10ms), sim::Outcome::kDone);
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "engine/sans_io.h"
#include "engine/sim/link.h"

namespace uroce::engine::sim {

/// How a run ended.
enum class Outcome : std::uint8_t {
  kDone,        ///< The predicate holds, the time has passed, or nothing is left to do: what was asked for.
  kTimeLimit,   ///< The predicate did not hold within the virtual time given.
  kStuck,       ///< The predicate does not hold and nothing is left that could change it.
  kEventLimit,  ///< WorldConfig::max_events used up: two NICs that never come to rest, or one that never stops sending.
};
const char* to_string(Outcome outcome);

struct WorldConfig {
  std::uint64_t seed = 1;
  LinkConfig link{};
  /// Not zero, so that a zero deadline that somebody forgot to set is in the past and shows.
  Instant start{std::chrono::seconds(1000)};
  std::uint64_t max_events = 10'000'000;  ///< Packets sent and delivered, timers and callbacks, over the world's life.
};

/// What a tap sees.
enum class TapPoint : std::uint8_t {
  kSent,        ///< As the sender made it, before the filter and the impairments.
  kDelivered,   ///< As the receiver is about to see it.
  kLost,        ///< Dropped by the filter or the impairments.
  kUnroutable,  ///< No node owns the destination.
  kImpaired,    ///< Will arrive, but the network has damaged, doubled or delayed it.
};
using Tap = std::function<void(TapPoint point, const Packet& packet, Instant now)>;

struct WorldCounters {
  std::uint64_t sent = 0;
  std::uint64_t delivered = 0;
  std::uint64_t lost = 0;
  std::uint64_t unroutable = 0;
  std::uint64_t timeouts = 0;
  friend bool operator==(const WorldCounters&, const WorldCounters&) = default;
};

class World {
 public:
  explicit World(WorldConfig config = {});
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Instant now() const { return now_; }
  Link& link() { return link_; }
  const WorldCounters& counters() const { return counters_; }

  /// Connects `nic` under `gids`; packets to one of them go to it. `nic` must outlive the world or be detached.
  template <SansIoNic N>
  NodeId attach(N& nic, std::initializer_list<proto::Gid> gids) {
    return attach(nic, std::span<const proto::Gid>(gids.begin(), gids.size()));
  }
  template <SansIoNic N>
  NodeId attach(N& nic, std::span<const proto::Gid> gids) {
    return add_node(std::make_unique<NodeOf<N>>(nic), gids);
  }
  /// Cuts a node off, as if its process had died: packets to it are unroutable, its timers do not fire.
  void detach(NodeId node);
  /// Brings packets for the multicast group `group` to `node`, its own ones too; each member's copy has a fate of its
  /// own on the way.
  void join(NodeId node, const proto::Gid& group);
  void leave(NodeId node, const proto::Gid& group);

  /// Takes what `node` wants to send and arms its timer. To be called after every call on the NIC that may have
  /// produced packets or an earlier deadline; also from within callbacks.
  void kick(NodeId node);
  /// Runs `callback` when the virtual time has advanced by `delay`.
  void after(Duration delay, std::function<void()> callback);

  void set_filter(Filter filter) { link_.set_filter(std::move(filter)); }
  void set_tap(Tap tap) { tap_ = std::move(tap); }
  /// Called after every on_datagram() and on_timeout(), before the node's packets are taken: the place to poll CQs,
  /// to post again, to check invariants.
  void set_on_step(std::function<void(NodeId)> on_step) { on_step_ = std::move(on_step); }

  /// Called whenever a node's packets have been taken: sees what sending completes as well. May call and kick the NIC.
  void set_on_drained(std::function<void(NodeId)> on_drained) { on_drained_ = std::move(on_drained); }

  /// Runs until `done()` holds, which is asked before the first and after every event; at most for `max_time`.
  Outcome run_until(const std::function<bool()>& done, Duration max_time);
  /// Runs for `time`: afterwards now() has advanced by it (kDone), or kEventLimit.
  Outcome run_for(Duration time);
  /// Runs until no packet is under way and no timer runs.
  Outcome run_idle();

 private:
  struct Node {
    virtual ~Node() = default;
    virtual void on_datagram(const proto::Datagram& datagram, Instant now) = 0;
    virtual void on_timeout(Instant now) = 0;
    virtual std::optional<proto::Transmit> poll_transmit(Instant now, MutBytes frame) = 0;
    virtual std::optional<Instant> next_deadline() const = 0;

    std::vector<proto::Gid> gids, groups;
    std::optional<Instant> deadline;  ///< As the NIC last told it.
    /// The queued timer event: never later than `deadline`, for a timer that is put off (with every ACK, say) keeps its
    /// event and moves when that comes up.
    std::optional<Instant> queued;
    std::uint32_t timer_generation = 0;  ///< The queued event's; older ones are stale.
    bool dirty = false;
    bool attached = true;
  };
  template <class N>
  struct NodeOf final : Node {
    explicit NodeOf(N& n) : nic(n) {}
    void on_datagram(const proto::Datagram& datagram, Instant now) override { nic.on_datagram(datagram, now); }
    void on_timeout(Instant now) override { nic.on_timeout(now); }
    std::optional<proto::Transmit> poll_transmit(Instant now, MutBytes frame) override {
      return nic.poll_transmit(now, frame);
    }
    std::optional<Instant> next_deadline() const override { return nic.next_deadline(); }
    N& nic;
  };
  /// Small, because the heap moves it about; what belongs to it lies in a pool.
  struct Event {
    enum class Kind : std::uint8_t { kPacket, kTimer, kCallback };
    Instant time;
    std::uint64_t sequence = 0;  ///< Breaks ties: events at one time run in the order in which they were made.
    Kind kind{};
    NodeId node = kNoNode;    ///< Receiver of a packet or owner of a timer.
    std::uint32_t index = 0;  ///< Of the packet or callback in its pool; the generation of a timer.
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
    }
  };
  /// A packet under way. Its buffer is exactly as long as the packet: the sanitizers see a NIC that reads past its end.
  struct Flight {
    Packet packet;
    std::unique_ptr<std::uint8_t[]> bytes;
    std::size_t copies = 0;
  };
  /// Objects under indices that are used again.
  template <class T>
  struct Pool {
    std::vector<T> all;
    std::vector<std::uint32_t> free;

    std::uint32_t take() {
      if (free.empty()) {
        all.emplace_back();
        return static_cast<std::uint32_t>(all.size() - 1);
      }
      const std::uint32_t index = free.back();
      free.pop_back();
      return index;
    }
    void give_back(std::uint32_t index) {
      all[index] = T{};
      free.push_back(index);
    }
  };

  NodeId add_node(std::unique_ptr<Node> node, std::span<const proto::Gid> gids);
  NodeId owner_of(const proto::Gid& gid) const;
  void push(Instant time, Event::Kind kind, NodeId node, std::uint32_t index);
  bool has_event_until(Instant limit);
  bool is_stale(const Event& event);
  void step();
  void deliver(NodeId node, std::uint32_t index);
  void drain_dirty();
  void drain(NodeId id);
  void transmit(NodeId from, const proto::Transmit& transmit);
  void carry(Packet packet, NodeId to);
  void arm(NodeId id);
  bool out_of_events() const { return events_ >= config_.max_events; }

  WorldConfig config_;
  Instant now_;
  Link link_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<NodeId> dirty_;
  bool draining_ = false;
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
  Pool<Flight> flights_;
  Pool<std::function<void()>> callbacks_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t events_ = 0;
  std::vector<std::uint8_t> frame_;
  Tap tap_;
  std::function<void(NodeId)> on_step_;
  std::function<void(NodeId)> on_drained_;
  WorldCounters counters_;
};

}  // namespace uroce::engine::sim
