// Requests for a service whose listener has just gone, or may be about to come. perftest's server listens anew for each
// of its connections, and its client does not wait for that; qperf's tells its port before it listens. A REJ would be
// the end of both. So such requests wait a little for the listener. With UD, perftest's first connection is to the TCP
// port and its second to the UDP port of the same number, so port numbers count, not port spaces.
// Requests that find the backlog full wait here too, until the program fetches one of those before them.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "verbs/cm/connection.h"

namespace uroce::cm {

class Latecomers {
 public:
  /// `all_until`: until then requests for any service may wait.
  explicit Latecomers(Instant all_until) : all_until_(all_until) {}

  static constexpr std::size_t kMost = 64;  ///< Requests, and services. Beyond that there is no waiting.

  struct Request {
    Instant due{};    ///< When to look at it again: `until`, or earlier when there is what it waits for.
    Instant until{};  ///< When it has to be answered.
    std::uint64_t service_id = 0;
    proto::Path path{};
    Mad mad{};
  };

  /// The last listener of the service is gone; requests that come until then may wait for another one. Those that wait
  /// already have to be answered at `answer_by`.
  void listener_gone(std::uint64_t service_id, Instant until, Instant answer_by) {
    if (gone_.size() < kMost || gone_.contains(number(service_id))) gone_[number(service_id)] = until;
    for (Request& request : waiting_) {
      if (request.service_id == service_id) request.due = request.until = std::min(request.until, answer_by);
    }
  }
  /// Whether requests for the service may wait for a listener.
  bool may_wait(std::uint64_t service_id, Instant now) const {
    const auto gone = gone_.find(number(service_id));
    return now < all_until_ || (gone != gone_.end() && now < gone->second);
  }
  /// Keeps the request, or the one that it repeats, `until` then. False: it must be answered now.
  bool keep(std::uint64_t service_id, const proto::Path& path, Bytes mad, Instant until) {
    for (const Request& waiting : waiting_) {
      if (waiting.path.source == path.source && std::equal(mad.begin(), mad.end(), waiting.mad.begin())) return true;
    }
    if (waiting_.size() == kMost) return false;
    Request& request = waiting_.emplace_back(Request{until, until, service_id, path, {}});
    std::copy(mad.begin(), mad.end(), request.mad.begin());
    return true;
  }
  /// `source` no longer wants what it has asked for under its communication ID.
  void withdraw(const Gid& source, std::uint32_t remote_id) {
    std::erase_if(waiting_, [&](const Request& request) {
      return request.path.source == source && load_be<4>(request.mad.data() + wire::Mad::kSize) == remote_id;
    });
  }
  /// There is a listener again: requests for it are due at once.
  void listener_back(std::uint64_t service_id) {
    gone_.erase(number(service_id));
    for (Request& request : waiting_) {
      if (request.service_id == service_id) request.due = Instant::min();
    }
  }
  /// One request more may come in: the one that has waited longest is due at once.
  void place_free(std::uint64_t service_id) {
    for (Request& request : waiting_) {
      if (request.service_id != service_id || request.due == Instant::min()) continue;
      request.due = Instant::min();
      return;
    }
  }
  /// Takes out what is due.
  std::vector<Request> take_due(Instant now) {
    std::vector<Request> due;
    std::erase_if(gone_, [now](const auto& service) { return service.second <= now; });
    std::erase_if(waiting_, [&](const Request& request) {
      if (request.due > now) return false;
      due.push_back(request);
      return true;
    });
    return due;
  }
  /// When the first request is due.
  std::optional<Instant> next_deadline() const {
    std::optional<Instant> first;
    for (const Request& request : waiting_) {
      if (!first || request.due < *first) first = request.due;
    }
    return first;
  }

 private:
  /// Without the port space: of 0000 0000 01SS PPPP, the SS.
  static constexpr std::uint64_t number(std::uint64_t service_id) { return service_id & ~std::uint64_t{0xFF0000}; }

  Instant all_until_;
  std::unordered_map<std::uint64_t, Instant> gone_;  ///< By number().
  std::deque<Request> waiting_;
};

}  // namespace uroce::cm
