// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/packets/both_ends.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "tools/explain/packets/begins.h"

namespace uroce::explain {

Result<std::unique_ptr<Capture>, std::string> Capture::open(const std::string& path, std::uint32_t number,
                                                            bool follow) {
  auto input = Input::open(path, follow);
  if (!input) return Err{input.error()};
  return open(std::move(*input), path, number);
}

Result<std::unique_ptr<Capture>, std::string> Capture::open(Input input, const std::string& name,
                                                            std::uint32_t number) {
  auto reader = Reader::open(std::move(input));
  if (!reader) return Err{"can't read the capture " + name + ": " + reader.error()};
  return std::unique_ptr<Capture>(new Capture(std::move(*reader), name, number));
}

std::optional<Packet> Capture::next() {
  Frame frame;
  while (reader_.next(frame) == Reader::Next::kFrame) {
    ++facts_.frames;
    auto packet = dissector_.packet(frame, facts_.frames);
    if (packet && is_cooked(frame.link_type) && passage_.is_on_its_way(*packet)) {
      ++facts_.passing;
      continue;
    }
    if (packet) {
      if (!packet->tunnel.empty() && facts_.tunneled++ == 0) facts_.tunnel = packet->tunnel;
      return std::move(*packet);
    }
    const Untold& untold = packet.error();
    switch (untold.why) {
      case Untold::Why::kNotRoce:
        ++facts_.not_roce;
        break;
      case Untold::Why::kBroken:
        if (facts_.broken++ == 0) facts_.first_broken = "#" + std::to_string(facts_.frames) + ", " + untold.text;
        break;
      case Untold::Why::kLinkType:
        facts_.unknown_link = untold.text;
    }
  }
  return std::nullopt;
}

FileFacts Capture::facts() const {
  FileFacts facts = facts_;
  facts.damage = reader_.damage();
  return facts;
}

namespace {

/// Whether packets come back, in the capture of one end.
bool is_answered(const std::deque<Packet>& packets) {
  std::set<std::pair<std::array<std::uint8_t, 16>, std::array<std::uint8_t, 16>>> ways;
  return std::ranges::any_of(packets, [&ways](const Packet& packet) {
    ways.emplace(packet.source.raw, packet.destination.raw);
    return packet.direction == Direction::kReceived || packet.is_response() ||
           ways.contains({packet.destination.raw, packet.source.raw});
  });
}

}  // namespace

std::optional<std::string> BothEnds::open(const std::string& path, bool follow, bool is_cut) {
  auto capture = Capture::open(path, static_cast<std::uint32_t>(sources_.size()), follow);
  if (!capture) return capture.error();
  add(std::move(*capture), is_cut);
  return std::nullopt;
}

void BothEnds::add(std::unique_ptr<Capture> capture, bool is_cut) {
  Source source;
  source.capture = std::move(capture);
  source.is_cut = is_cut;
  sources_.push_back(std::move(source));
}

/// Whether `source` has a packet ahead, and when.
bool BothEnds::peek(Source& source) {
  if (source.next_ns) return true;
  while (!source.ended && source.ahead.size() < (prepared_ && !live_ && sources_.size() > 1 ? kAhead : 1)) {
    read_one(source);
  }
  if (source.ahead.empty()) return false;
  const std::int64_t ahead_ns = source.clock ? source.clock->at_front(source.ahead, first_seen_) : 0;
  source.next_ns = source.ahead.front().time_ns - ahead_ns;
  return true;
}

void BothEnds::read_one(Source& source) {
  const std::size_t wanted = straightens_ ? SetBack::kLook : 1;
  while (source.read.size() < wanted) {
    auto packet = source.capture->next();
    if (!packet) break;
    source.read.push_back(std::move(*packet));
  }
  source.ended = source.read.empty();
  if (source.ended) return;
  const std::int64_t time = straightens_ ? source.set_back.straight(source.read) : source.read.front().time_ns;
  source.ahead.push_back(std::move(source.read.front()));
  source.read.pop_front();
  source.ahead.back().time_ns = time;
  if (&source == &sources_.front() && sources_.size() > 1) first_seen_.add(source.ahead.back());
}

/// The packet that peek() has found.
Packet BothEnds::take(Source& source) {
  Packet packet = std::move(source.ahead.front());
  source.ahead.pop_front();
  packet.time_ns = *source.next_ns;
  source.next_ns.reset();
  return packet;
}

/// Looks at the beginning of the captures: do two taps see the same packets, and how do their clocks differ?
void BothEnds::prepare() {
  prepared_ = true;
  twins_used_ = sources_.size() > 1;
  if (live_) return;
  straightens_ = twins_used_;
  for (Source& source : sources_) {
    while (!source.ended && source.ahead.size() < kAhead) read_one(source);
    for (const Packet& packet : source.ahead) twins_used_ = twins_used_ || packet.tap != source.ahead.front().tap;
  }
  if (sources_.size() == 2) {
    const bool first_is_empty = sources_[0].ahead.empty();
    const Source& other = sources_[first_is_empty ? 1 : 0];
    // Where somebody answers, the empty one is of somebody else.
    twins_.set_silent_end(first_is_empty != sources_[1].ahead.empty() && !is_answered(other.ahead));
  }
  for (std::size_t i = 1; i < sources_.size(); ++i) {
    sources_[i].clock = ClockDifference::find(sources_[0].ahead, sources_[i].ahead);
  }
  if (sources_.size() == 1) {
    Source& only = sources_.front();
    twins_used_ = twins_used_ || look_for_doubles(only.ahead);
    straightens_ = twins_used_;  // The times of one end's capture need not agree with any others.
    if (straightens_) begin_again(only);
  }
  if (twins_used_) rehearse();
}

/// Takes what was read so far for unread.
void BothEnds::begin_again(Source& source) {
  source.ended = false;
  source.read.insert(source.read.begin(), std::make_move_iterator(source.ahead.begin()),
                     std::make_move_iterator(source.ahead.end()));
  source.ahead.clear();
  while (!source.ended && source.ahead.size() < kAhead) read_one(source);
}

/// Takes over from the packets read so far which tap is at which end.
void BothEnds::rehearse() {
  twins_.set_doubles(doubles_);
  std::vector<Packet> packets(told_.begin(), told_.end());
  for (const Source& source : sources_) {
    for (Packet packet : source.ahead) {
      if (source.clock) packet.time_ns = source.clock->at_begin(packet.time_ns);
      packets.push_back(std::move(packet));
    }
  }
  std::set<std::uint32_t> on_time = taps_on_time(packets);
  for (const Source& source : sources_) {
    for (const Packet& packet : source.ahead) {
      if (source.is_cut) on_time.erase(packet.tap);
    }
  }
  twins_.set_on_time(std::move(on_time));
  Twins rehearsal;
  rehearsal.set_doubles(doubles_);
  for (Packet& packet : packets) rehearsal.add(std::move(packet));
  twins_.learn_ends(rehearsal);
}

/// Looks at a packet of a live capture, which is printed at once: do packets come twice so far? Then further ones are
/// held back.
void BothEnds::watch(const Packet& packet) {
  if (!live_ || told_.size() >= kAhead) return;
  told_.push_back(packet);
  if (told_.size() % kLooks != 0) return;
  twins_used_ = packet.tap != told_.front().tap || look_for_doubles(told_);
  if (!twins_used_) return;
  rehearse();
  for (const Packet& each : told_) {
    const std::uint64_t identity = identity_of(each) ^ each.icrc_value;
    if (awaited_.erase(identity) == 0) awaited_.insert(identity);
  }
}

/// The second sighting of a packet whose first one was told.
bool BothEnds::was_told(const Packet& packet) {
  return !awaited_.empty() && awaited_.erase(identity_of(packet) ^ packet.icrc_value) != 0;
}

/// One tap that has both sightings of packets: with their directions (Linux cooked, a NIC that talks to itself) or
/// without.
bool BothEnds::look_for_doubles(const std::deque<Packet>& packets) {
  doubles_.learn(packets);
  if (doubles_.any()) return true;
  std::unordered_map<std::uint64_t, Direction> seen;
  for (const Packet& packet : packets) {
    if (packet.direction == Direction::kUnknown) continue;
    const auto [first, fresh] = seen.try_emplace(identity_of(packet), packet.direction);
    if (!fresh && first->second != packet.direction) return true;
  }
  return false;
}

BothEnds::Source* BothEnds::earliest() {
  Source* best = nullptr;
  for (Source& source : sources_) {
    if (!peek(source)) continue;
    if (best == nullptr || *source.next_ns < *best->next_ns) best = &source;
  }
  return best;
}

std::optional<Packet> BothEnds::next() {
  if (!prepared_) prepare();
  while (true) {
    if (twins_used_) {
      if (auto packet = twins_.take(false)) return packet;
    }
    Source* const source = earliest();
    if (source == nullptr) return twins_.take(true);
    Packet packet = take(*source);
    if (!twins_used_) {
      watch(packet);
      return packet;
    }
    if (was_told(packet)) continue;
    twins_.add(std::move(packet));
  }
}

std::vector<FileFacts> BothEnds::facts() const {
  std::vector<FileFacts> facts;
  for (const Source& source : sources_) {
    facts.push_back(source.capture->facts());
    facts.back().set_back = source.set_back.steps();
    if (!source.clock) continue;
    facts.back().clock_ahead_ns = source.clock->at_first();
    facts.back().clock_steps = source.clock->steps();
  }
  return facts;
}

std::uint64_t BothEnds::frames() const {
  std::uint64_t frames = 0;
  for (const Source& source : sources_) frames += source.capture->facts().frames;
  return frames;
}

std::pair<std::uint64_t, std::uint64_t> BothEnds::progress() const {
  std::uint64_t done = 0, all = 0;
  for (const Source& source : sources_) {
    const Input& input = source.capture->input();
    if (!input.size()) return {0, 0};
    done += input.position();
    all += *input.size();
  }
  return {done, all};
}

}  // namespace uroce::explain
