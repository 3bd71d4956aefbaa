// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/packets/doubles.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/explain/packets/twins.h"

namespace uroce::explain {
namespace {

/// Sightings that are further apart are of two transmissions.
constexpr std::int64_t kApart = 200'000'000;
/// Fewer sightings of two hosts say nothing, when no Identification tells a copy from what was sent again.
constexpr std::size_t kEnough = 20, kEnoughWithIds = 4;
/// No requester waits less for an answer; the clocks of two ends may well differ by less.
constexpr std::int64_t kShortestWait = 250'000;
/// As many packets, where the other way has none twice.
constexpr std::size_t kEnoughOneWay = 4;

/// What the sightings of one way between two hosts say.
struct Way {
  std::size_t twice = 0, otherwise = 0;  ///< Packets.
  std::size_t again = 0;                 ///< Of them: with the contents of one before, but sent anew.
  std::set<std::array<std::uint32_t, 3>> contents;

  void add_content(const Packet& packet) {
    std::array<std::uint32_t, 3> content{packet.content, packet.psn.value(), packet.dest_qp};
    // Each message of the connection manager that is sent has a PSN of its own.
    if (packet.cm)
      content = {static_cast<std::uint32_t>(packet.cm->attribute), packet.cm->local_id, packet.cm->remote_id};
    if ((packet.cm || packet.content != 0) && !contents.insert(content).second) ++again;
  }
  /// All packets, and too many for a network that copies some.
  bool is_doubled_alone() const { return twice >= kEnoughOneWay && otherwise == 0; }
  /// Its sender goes on sending the same: what the other one answers does not reach it.
  bool is_deaf() const { return again * 2 >= twice; }
};

struct Talk {
  Way there, back;
  std::size_t sightings = 0;
  bool ids = true;
  std::vector<std::int64_t> gaps;
  std::size_t in_turn = 0, at_once = 0;  ///< Exchanges.

  /// Most packets both ways, so that neither losses nor what a peer asks for again can look like it.
  bool is_doubled() const {
    const auto most = [](const Way& way) { return way.twice >= way.otherwise; };
    const std::size_t twice = there.twice + back.twice, otherwise = there.otherwise + back.otherwise;
    return sightings >= (ids ? kEnoughWithIds : kEnough) && most(there) && most(back) && twice >= otherwise * 2 &&
           !is_sent_twice();
  }
  /// An Identification tells what was sent once, in whatever order it is seen.
  bool is_sent_twice() const { return !ids && in_turn > at_once; }
};

/// The requests of RC with one PSN, and the answers that have it too: when each was seen.
struct Exchange {
  using Times = std::vector<std::int64_t>;
  std::vector<Times> requests, answers;

  /// One of each, seen twice. Else QPs may have the same PSNs, or a NAK came in between.
  bool is_plain() const {
    return requests.size() == 1 && answers.size() == 1 && requests[0].size() == 2 && answers[0].size() == 2 &&
           requests[0][0] < answers[0][0];
  }
  bool is_at_once() const { return requests[0][1] <= answers[0][0]; }
  /// Request, answer, request: what is answered has arrived, so the second one was sent anew, as after a lost answer.
  bool is_in_turn() const { return !is_at_once() && requests[0][1] - requests[0][0] >= kShortestWait; }
};

/// By requester, responder and PSN.
using Exchanges =
    std::map<std::tuple<std::array<std::uint8_t, 16>, std::array<std::uint8_t, 16>, std::uint32_t>, Exchange>;

void add_sightings(Exchanges& exchanges, const std::vector<const Packet*>& row) {
  const Packet& first = *row.front();
  if (first.op->service != proto::Service::kRc) return;
  Exchange::Times times;
  for (const Packet* const packet : row) times.push_back(packet->time_ns);
  std::sort(times.begin(), times.end());
  if (first.is_response()) {
    exchanges[{first.destination.raw, first.source.raw, first.psn.value()}].answers.push_back(std::move(times));
  } else {
    exchanges[{first.source.raw, first.destination.raw, first.psn.value()}].requests.push_back(std::move(times));
  }
}

}  // namespace

Doubles::Hosts Doubles::hosts_of(const Packet& packet) {
  return std::minmax(packet.source.raw, packet.destination.raw);
}

void Doubles::learn(const std::deque<Packet>& packets) {
  std::unordered_map<std::uint64_t, std::vector<const Packet*>> sightings;
  for (const Packet& packet : packets) {
    if (packet.direction == Direction::kUnknown) sightings[identity_of(packet) ^ packet.icrc_value].push_back(&packet);
  }
  std::map<Hosts, Talk> talks;
  Exchanges exchanges;
  for (const auto& [identity, row] : sightings) {
    const Packet& first = *row.front();
    add_sightings(exchanges, row);
    Talk& talk = talks[hosts_of(first)];
    Way& way = first.source.raw <= first.destination.raw ? talk.there : talk.back;
    talk.sightings += row.size();
    way.add_content(first);
    talk.ids = talk.ids && first.ip_id != 0;
    const std::int64_t gap = row.size() == 2 ? row[1]->time_ns - row[0]->time_ns : 0;
    if (row.size() == 2 && gap <= kApart) {
      ++way.twice;
      talk.gaps.push_back(gap);
    } else if (row.size() <= 2 || (row.size() % 2 == 1 && first.ip_id == 0)) {
      ++way.otherwise;
    }  // Three times with one Identification: a copy of the network. Four times: sent twice or four times. Both say
       // nothing.
  }
  for (const auto& [key, exchange] : exchanges) {
    if (!exchange.is_plain()) continue;
    Talk& talk = talks[std::minmax(std::get<0>(key), std::get<1>(key))];
    if (exchange.is_in_turn()) ++talk.in_turn;
    if (exchange.is_at_once()) ++talk.at_once;
  }
  std::vector<std::int64_t> gaps;
  for (const auto& [hosts, talk] : talks) {
    const Hosts back{hosts.second, hosts.first};
    const bool there_alone = talk.ids && talk.there.is_doubled_alone() && talk.back.twice == 0;
    const bool back_alone = talk.ids && talk.back.is_doubled_alone() && talk.there.twice == 0;
    if (talk.is_doubled()) {
      ways_.insert({hosts, back});
    } else if (there_alone || back_alone) {
      ways_.insert(there_alone ? hosts : back);
      opposite_.insert(there_alone ? back : hosts);
      if ((there_alone ? talk.there : talk.back).is_deaf()) unheard_.insert(there_alone ? back : hosts);
    } else {
      continue;
    }
    gaps.insert(gaps.end(), talk.gaps.begin(), talk.gaps.end());
  }
  if (gaps.empty()) return;
  const auto high = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() * 9 / 10);
  std::nth_element(gaps.begin(), high, gaps.end());
  usual_ns_ = 2 * std::max<std::int64_t>(*high, 0);
}

bool Doubles::has(const Packet& packet) const {
  return packet.direction == Direction::kUnknown && !ways_.empty() && ways_.contains(way_of(packet));
}

Doubles::Single Doubles::single(const Packet& packet) const {
  if (!opposite_.contains(way_of(packet))) return Single::kLost;
  return unheard_.contains(way_of(packet)) ? Single::kProbablyLost : Single::kNothing;
}

Doubles::Verdict Doubles::judge(std::span<const std::int64_t> times, bool one_sending) const {
  Verdict verdict;
  if (times.size() < 2) return verdict;
  const std::int64_t gap = times[1] - times[0];
  if (gap > kApart) return verdict;
  const bool third = times.size() > 2;
  // One that was lost and soon sent again: the two sightings of the second transmission are closer to each other.
  if (!one_sending && gap > usual_ns_ && third && times[2] - times[1] < gap) return verdict;
  verdict.arrived = true;
  if (!third || times[2] - times[1] > (one_sending ? kApart : usual_ns_)) return verdict;
  const bool has_partner = times.size() > 3 && times[3] - times[2] <= std::max(usual_ns_, times[2] - times[1]);
  verdict.copy_arrived = one_sending || !has_partner;
  return verdict;
}

}  // namespace uroce::explain
