// SPDX-License-Identifier: Apache-2.0
#include "engine/faults/streams.h"

#include <algorithm>

namespace uroce::engine::faults {
namespace {

constexpr std::uint32_t kNobody = 0;  // No QPN of ours: 0 is the subnet manager's.

constexpr bool is_from_us(Traffic traffic) {  // The PSNs are those of our requests.
  return traffic == Traffic::kSentRequests || traffic == Traffic::kReceivedResponses;
}

constexpr auto by_place = [](const Struck& struck, std::int64_t place) { return struck.place < place; };

}  // namespace

std::int64_t Stream::distance(proto::Psn psn) {
  const auto newest_psn = first_ + static_cast<std::uint32_t>(newest_ & proto::Psn::kMask);
  const std::int64_t found = newest_ + (psn - newest_psn);
  newest_ = std::max(newest_, found);
  return found;
}

const Struck* Stream::find(std::int64_t place) const {
  const auto it = std::lower_bound(struck_.begin(), struck_.end(), place, by_place);
  return it != struck_.end() && it->place == place ? &*it : nullptr;
}

void Stream::remember(std::int64_t place, bool lost) {
  auto it = std::lower_bound(struck_.begin(), struck_.end(), place, by_place);
  if (it == struck_.end() || it->place != place) it = struck_.insert(it, {.place = place});
  it->losses += lost;
  it->through = !lost;
  if (struck_.size() <= kMost) return;
  forgotten_below_ = struck_.front().place + 1;
  struck_.erase(struck_.begin());
}

std::optional<proto::QpIdentity> Streams::identify(std::uint32_t qpn) const {
  if (identify_) return identify_(qpn);
  return proto::QpIdentity{.nth = qpn};
}

Streams::Found Streams::of(Traffic traffic, std::uint32_t qpn, proto::Psn psn, const std::optional<Peer>& peer) {
  const auto known = identify(qpn);
  const proto::QpIdentity who = known.value_or(proto::QpIdentity{});
  if (!known) qpn = kNobody;
  if (qps_.size() >= look_for_dead_at_ && !qps_.contains(qpn)) forget_the_dead();
  OfQp& qp = qps_[qpn];
  if (qp.nth != who.nth || qp.life != who.life) qp = OfQp{.nth = who.nth, .life = who.life};

  Stream* stream = &qp.streams.at(static_cast<std::size_t>(traffic));
  std::uint64_t number = 0;
  if (peer) {
    auto it = std::find_if(qp.peers.begin(), qp.peers.end(), [&](const auto& row) { return row.first == *peer; });
    if (it == qp.peers.end() && qp.peers.size() < kMostPeers) it = qp.peers.insert(it, {*peer, Stream(psn)});
    if (it != qp.peers.end()) {
      stream = &it->second;
      number = static_cast<std::uint64_t>(it - qp.peers.begin()) + 1;
    }
  } else if (const proto::Psn first = is_from_us(traffic) ? who.first_sent : who.first_received;
             stream->first() != first) {
    *stream = Stream(first);
  }
  const std::uint64_t part = number << 8 | static_cast<std::uint64_t>(traffic);
  return {.stream = *stream,
          .id = StreamId{qpn} << 24 | part,
          .name = (std::uint64_t{who.nth} << 32 | who.life) << 16 ^ part,
          .nth = who.nth,
          .mtu = who.mtu};
}

/// QPs come and go, and their numbers with them.
void Streams::forget_the_dead() {
  std::erase_if(qps_, [this](const auto& row) { return row.first != kNobody && nth(row.first) != row.second.nth; });
  look_for_dead_at_ = 2 * qps_.size() + 64;
}

std::size_t Streams::remembered() const {
  std::size_t sum = 0;
  for (const auto& [qpn, qp] : qps_) {
    for (const Stream& stream : qp.streams) sum += stream.remembered();
    for (const auto& row : qp.peers) sum += row.second.remembered();
  }
  return sum;
}

}  // namespace uroce::engine::faults
