// SPDX-License-Identifier: Apache-2.0
#include "verbs/cm/latecomers.h"

#include <algorithm>

namespace uroce::cm {
namespace {

constexpr Instant kAtOnce = Instant::min();

}  // namespace

void Latecomers::listener_gone(std::uint64_t service_id, Instant until, Instant answer_by) {
  if (gone_.size() < kMostServices || gone_.contains(number(service_id))) gone_[number(service_id)] = until;
  for (auto& [_, request] : waiting_) {
    if (request.service_id != service_id) continue;
    request.until = std::min(request.until, answer_by);
    set_due(request, request.until);
  }
}

void Latecomers::listener_back(std::uint64_t service_id) {
  gone_.erase(number(service_id));
  for (auto& [_, request] : waiting_) {
    if (request.service_id == service_id) set_due(request, kAtOnce);
  }
}

bool Latecomers::may_wait(std::uint64_t service_id, Instant now) const {
  const auto gone = gone_.find(number(service_id));
  return now < all_until_ || (gone != gone_.end() && now < gone->second);
}

bool Latecomers::keep(std::uint64_t service_id, const proto::Path& path, Bytes mad, Instant until) {
  Request request{last_ + 1, until, until, service_id, path, {}};
  std::copy(mad.begin(), mad.end(), request.mad.begin());
  const PeerKey key = key_of(path.source, request.mad);
  if (const auto known = by_peer_.find(key); known != by_peer_.end()) {
    if (waiting_.at(known->second).mad == request.mad) return true;
    take(known->second);  // The peer has begun a new life, with the same numbers.
  }
  if (waiting_.size() == kMost) return false;
  ++last_;
  insert(request);
  return true;
}

void Latecomers::keep_again(const Request& request) {
  insert(request);
  set_due(waiting_.at(request.number), request.until);
}

void Latecomers::withdraw(const Gid& source, std::uint32_t remote_id) {
  const auto known = by_peer_.find({source, 0, remote_id});
  if (known != by_peer_.end()) take(known->second);
}

void Latecomers::place_free(std::uint64_t service_id, const std::function<bool(const Gid&)>& has_room) {
  for (auto first = first_.lower_bound({service_id, 0}); first != first_.end(); ++first) {
    const auto& [service, number] = *first;
    if (service != service_id) return;
    Request& request = waiting_.at(number);
    if (has_room(request.path.source)) return set_due(request, kAtOnce);
  }
}

std::vector<Latecomers::Request> Latecomers::take_due(Instant now) {
  std::vector<Request> due;
  std::erase_if(gone_, [now](const auto& service) { return service.second <= now; });
  while (!by_due_.empty() && by_due_.begin()->first <= now) due.push_back(take(by_due_.begin()->second));
  return due;
}

std::optional<Instant> Latecomers::next_deadline() const {
  return by_due_.empty() ? std::nullopt : std::optional(by_due_.begin()->first);
}

/// The sender's communication ID is the first field of REQ and of SIDR_REQ.
PeerKey Latecomers::key_of(const Gid& source, const Mad& mad) {
  return {source, 0, static_cast<std::uint32_t>(load_be<4>(mad.data() + wire::Mad::kSize))};
}

void Latecomers::insert(const Request& request) {
  by_peer_[key_of(request.path.source, request.mad)] = request.number;
  enter_queue(request);
  waiting_.emplace(request.number, request);
}

void Latecomers::set_due(Request& request, Instant due) {
  leave_queue(request);
  request.due = due;
  enter_queue(request);
}

void Latecomers::enter_queue(const Request& request) {
  by_due_.insert({request.due, request.number});
  if (request.due == kAtOnce) return;
  auto& queue = queues_[{request.service_id, request.path.source.raw}];
  if (!queue.empty()) first_.erase({request.service_id, *queue.begin()});
  queue.insert(request.number);
  first_.insert({request.service_id, *queue.begin()});
}

void Latecomers::leave_queue(const Request& request) {
  by_due_.erase({request.due, request.number});
  const auto queue = queues_.find({request.service_id, request.path.source.raw});
  if (queue == queues_.end()) return;
  first_.erase({request.service_id, *queue->second.begin()});
  queue->second.erase(request.number);
  if (queue->second.empty()) {
    queues_.erase(queue);
  } else {
    first_.insert({request.service_id, *queue->second.begin()});
  }
}

Latecomers::Request Latecomers::take(Number number) {
  auto node = waiting_.extract(number);
  const Request& request = node.mapped();
  leave_queue(request);
  by_peer_.erase(key_of(request.path.source, request.mad));
  return request;
}

}  // namespace uroce::cm
