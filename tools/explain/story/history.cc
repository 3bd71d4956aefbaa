// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/story/history.h"

#include <algorithm>
#include <utility>

namespace uroce::explain {

const SentPacket* History::packet(PsnIndex index) const {
  const auto at = std::lower_bound(packets_.begin(), packets_.end(), index,
                                   [](const SentPacket& p, PsnIndex i) { return p.index < i; });
  return at != packets_.end() && at->index == index ? &*at : nullptr;
}

SentPacket* History::packet(PsnIndex index) {
  return const_cast<SentPacket*>(std::as_const(*this).packet(index));  // NOLINT(*-const-cast): it is ours.
}

Message* History::before(PsnIndex index) {
  const auto behind = std::upper_bound(messages_.begin(), messages_.end(), index,
                                       [](PsnIndex i, const Message& m) { return i < m.first; });
  return behind == messages_.begin() ? nullptr : &*std::prev(behind);
}

Message* History::message(PsnIndex index) {
  Message* const found = before(index);
  return found != nullptr && index < found->end() ? found : nullptr;
}

const Message* History::message(PsnIndex index) const {
  return const_cast<History*>(this)->message(index);  // NOLINT(*-const-cast): it changes nothing.
}

void History::remove(const Message& message) {
  const auto at = std::lower_bound(messages_.begin(), messages_.end(), message.first,
                                   [](const Message& m, PsnIndex i) { return m.first < i; });
  if (at != messages_.end() && at->first == message.first) messages_.erase(at);
}

std::deque<Message>::iterator History::from(PsnIndex index) {
  return std::partition_point(messages_.begin(), messages_.end(), [&](const Message& m) { return m.end() <= index; });
}

Hole* History::hole(PsnIndex index) {
  const auto at =
      std::find_if(holes_.begin(), holes_.end(), [&](const Hole& h) { return h.begin <= index && index < h.end; });
  return at == holes_.end() ? nullptr : &*at;
}

SentPacket& History::add_packet(const SentPacket& packet) {
  if (packets_.empty() || packets_.back().index < packet.index) {
    packets_.push_back(packet);
    if (packets_.size() > kPackets) packets_.pop_front();
    return packets_.back();
  }
  const auto at = std::lower_bound(packets_.begin(), packets_.end(), packet.index,
                                   [](const SentPacket& p, PsnIndex i) { return p.index < i; });
  const auto place = packets_.insert(at, packet);
  if (packets_.size() <= kPackets) return *place;
  if (place != packets_.begin()) {
    packets_.pop_front();
    return *this->packet(packet.index);
  }
  packets_.pop_back();
  return packets_.front();
}

Message& History::add_message(const Message& message) {
  if (messages_.empty() || messages_.back().first < message.first) {
    messages_.push_back(message);
    if (messages_.size() > kMessages) messages_.pop_front();
    return messages_.back();
  }
  const auto at = std::lower_bound(messages_.begin(), messages_.end(), message.first,
                                   [](const Message& m, PsnIndex i) { return m.first < i; });
  const auto place = messages_.insert(at, message);
  if (messages_.size() <= kMessages) return *place;
  if (place != messages_.begin()) {
    messages_.pop_front();
    return *std::prev(std::upper_bound(messages_.begin(), messages_.end(), message.first,
                                       [](PsnIndex i, const Message& m) { return i < m.first; }));
  }
  messages_.pop_back();
  return messages_.front();
}

void History::add_hole(const Hole& hole) {
  holes_.push_back(hole);
  if (holes_.size() > kHoles) holes_.pop_front();
}

std::uint64_t History::fill_hole(PsnIndex index, std::int64_t psns) {
  const PsnIndex end = index + std::max<std::int64_t>(psns, 1);
  std::deque<Hole> left;
  PsnIndex filled = 0;
  for (const Hole& hole : holes_) {
    if (end <= hole.begin || hole.end <= index) {
      left.push_back(hole);
      continue;
    }
    if (!hole.damaged) filled += std::min(end, hole.end) - std::max(index, hole.begin);
    if (hole.begin < index) left.push_back({hole.begin, index, hole.time_ns, hole.behind, hole.damaged});
    if (end < hole.end) left.push_back({end, hole.end, hole.time_ns, hole.behind, hole.damaged});
  }
  holes_ = std::move(left);
  while (holes_.size() > kHoles) holes_.pop_front();
  return static_cast<std::uint64_t>(filled);
}

void History::trim(PsnIndex una) {
  constexpr PsnIndex kKept = 1024;  ///< Duplicates of what was acknowledged come late at times.
  while (!packets_.empty() && packets_.front().index < una - kKept) packets_.pop_front();
  while (!messages_.empty() && messages_.front().end() < una - kKept && messages_.front().done) messages_.pop_front();
  while (!holes_.empty() && holes_.front().end < una - kKept) holes_.pop_front();
}

}  // namespace uroce::explain
