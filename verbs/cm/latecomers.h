// SPDX-License-Identifier: Apache-2.0
// Requests for a service whose listener has just gone, or may be about to come. perftest's server listens anew for each
// of its connections, and its client does not wait for that; qperf's tells its port before it listens. A REJ would be
// the end of both. So such requests wait a little for the listener. With UD, perftest's first connection is to the TCP
// port and its second to the UDP port of the same number, so port numbers count, not port spaces.
// Requests that find no place wait here too: the backlog is full, or too many of their sender's are not accepted yet. A
// program that connects thousands of times at once is then served as fast as its peer accepts.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "verbs/cm/connection.h"
#include "verbs/cm/limits.h"

namespace uroce::cm {

class Latecomers {
 public:
  /// `all_until`: until then requests for any service may wait.
  Latecomers(Instant all_until, SpareMemory& memory)
      : all_until_(all_until),
        gone_(&memory),
        waiting_(&memory),
        by_peer_(&memory),
        queues_(&memory),
        first_(&memory),
        by_due_(&memory) {}

  static constexpr std::size_t kMost = 16384;       ///< Requests, 10 MB of them. Beyond that there is no waiting.
  static constexpr std::size_t kMostServices = 64;  ///< The same for services whose listener has gone.

  using Number = std::uint64_t;  ///< A request's, in order of arrival.
  struct Request {
    Number number = 0;
    Instant due{};    ///< When to look at it again: `until`, or at once when there is what it waits for.
    Instant until{};  ///< When it has to be answered.
    std::uint64_t service_id = 0;
    proto::Path path{};
    Mad mad{};
  };

  /// The last listener of the service is gone; requests that come until then may wait for another one. Those that wait
  /// already have to be answered at `answer_by`.
  void listener_gone(std::uint64_t service_id, Instant until, Instant answer_by);
  /// There is a listener again: requests for it are due at once.
  void listener_back(std::uint64_t service_id);
  /// Whether requests for the service may wait for a listener.
  bool may_wait(std::uint64_t service_id, Instant now) const;

  /// Keeps the request, or the one that it repeats, `until` then. False: it must be answered now.
  bool keep(std::uint64_t service_id, const proto::Path& path, Bytes mad, Instant until);
  /// The same for one that was due and finds no place after all: it goes back to where it stood.
  void keep_again(const Request& request);
  /// `source` no longer wants what it has asked for under its communication ID.
  void withdraw(const Gid& source, std::uint32_t remote_id);
  /// One request more may come in, if `has_room` says so of its source: the one that has waited longest is due at once.
  void place_free(std::uint64_t service_id, const std::function<bool(const Gid&)>& has_room);

  /// Takes out what is due first.
  std::optional<Request> take_due(Instant now);
  /// When the first request is due.
  std::optional<Instant> next_deadline() const;

 private:
  using Queue = std::pair<std::uint64_t, decltype(Gid::raw)>;  ///< Service and source.

  /// Without the port space: of 0000 0000 01SS PPPP, the SS.
  static constexpr std::uint64_t number(std::uint64_t service_id) { return service_id & ~std::uint64_t{0xFF0000}; }
  static PeerKey key_of(const Gid& source, const Mad& mad);
  void insert(const Request& request);
  // These take no memory: there may be many at once.
  void set_due(Request& request, Instant due);
  void set_due_at_once(Request& request);
  void leave_queue(const Request& request);
  Request take(Number number);

  Instant all_until_;
  std::pmr::map<std::uint64_t, Instant> gone_;  ///< By number().
  std::pmr::map<Number, Request> waiting_;
  Number last_ = 0;
  std::pmr::map<PeerKey, Number> by_peer_;                 ///< Finds repeated ones: the peer's communication ID.
  std::pmr::map<Queue, std::pmr::set<Number>> queues_;     ///< For a place: without those that were due at once.
  std::pmr::set<std::pair<std::uint64_t, Number>> first_;  ///< Of each queue, by service.
  std::pmr::set<std::pair<Instant, Number>> by_due_;
};

}  // namespace uroce::cm
