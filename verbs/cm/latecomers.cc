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
    if (request.service_id == service_id) set_due_at_once(request);
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
  Request again = request;
  again.due = request.until;
  insert(again);
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
    if (has_room(request.path.source)) return set_due_at_once(request);
  }
}

std::optional<Latecomers::Request> Latecomers::take_due(Instant now) {
  std::erase_if(gone_, [now](const auto& service) { return service.second <= now; });
  if (by_due_.empty() || by_due_.begin()->first > now) return std::nullopt;
  return take(by_due_.begin()->second);
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
  by_due_.insert({request.due, request.number});
  auto& queue = queues_[{request.service_id, request.path.source.raw}];
  if (!queue.empty()) first_.erase({request.service_id, *queue.begin()});
  queue.insert(request.number);
  first_.insert({request.service_id, *queue.begin()});
  waiting_.emplace(request.number, request);
}

void Latecomers::set_due(Request& request, Instant due) {
  auto node = by_due_.extract({request.due, request.number});
  node.value().first = request.due = due;
  by_due_.insert(std::move(node));
}

void Latecomers::set_due_at_once(Request& request) {
  leave_queue(request);
  set_due(request, kAtOnce);
}

void Latecomers::leave_queue(const Request& request) {
  const auto queue = queues_.find({request.service_id, request.path.source.raw});
  if (queue == queues_.end()) return;
  auto first = first_.extract({request.service_id, *queue->second.begin()});
  queue->second.erase(request.number);
  if (queue->second.empty()) return void(queues_.erase(queue));
  first.value().second = *queue->second.begin();
  first_.insert(std::move(first));
}

Latecomers::Request Latecomers::take(Number number) {
  auto node = waiting_.extract(number);
  const Request& request = node.mapped();
  leave_queue(request);
  by_due_.erase({request.due, request.number});
  by_peer_.erase(key_of(request.path.source, request.mad));
  return request;
}

}  // namespace uroce::cm
