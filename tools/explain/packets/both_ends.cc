// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/packets/both_ends.h"

#include <algorithm>
#include <limits>
#include <map>
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

std::optional<std::string> BothEnds::open(const std::string& path, bool follow) {
  auto capture = Capture::open(path, static_cast<std::uint32_t>(sources_.size()), follow);
  if (!capture) return capture.error();
  add(std::move(*capture));
  return std::nullopt;
}

void BothEnds::add(std::unique_ptr<Capture> capture) {
  Source source;
  source.capture = std::move(capture);
  sources_.push_back(std::move(source));
}

/// Whether `source` has a packet ahead.
bool BothEnds::peek(Source& source) {
  if (source.ahead.empty() && !source.ended) read_one(source);
  return !source.ahead.empty();
}

void BothEnds::read_one(Source& source) {
  auto packet = source.capture->next();
  source.ended = !packet.has_value();
  if (packet) source.ahead.push_back(std::move(*packet));
}

/// Looks at the beginning of the captures: do two taps see the same packets, and how do their clocks differ?
void BothEnds::prepare() {
  prepared_ = true;
  twins_used_ = sources_.size() > 1;
  if (live_) return;
  for (Source& source : sources_) {
    while (!source.ended && source.ahead.size() < kAhead) read_one(source);
    for (const Packet& packet : source.ahead) twins_used_ = twins_used_ || packet.tap != source.ahead.front().tap;
  }
  std::size_t silent = 0;
  for (const Source& source : sources_) silent += source.ended && source.ahead.empty() ? 1u : 0u;
  twins_.set_silent_end(sources_.size() == 2 && silent == 1);
  for (std::size_t i = 1; i < sources_.size(); ++i) sources_[i].ahead_ns = clock_offset(sources_[0], sources_[i]);
  if (!twins_used_ && sources_.size() == 1) twins_used_ = look_for_doubles(sources_[0].ahead);
  if (twins_used_) rehearse();
}

/// Takes over from the packets read so far which tap is at which end.
void BothEnds::rehearse() {
  twins_.set_doubles(doubles_);
  std::vector<Packet> packets(told_.begin(), told_.end());
  for (const Source& source : sources_) {
    for (Packet packet : source.ahead) {
      packet.time_ns -= source.ahead_ns.value_or(0);
      packets.push_back(std::move(packet));
    }
  }
  twins_.set_on_time(taps_on_time(packets));
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

/// By how much the clock of `other` is ahead, if the way there takes as long as the way back; nothing when no packet is
/// in both captures.
std::optional<std::int64_t> BothEnds::clock_offset(const Source& first, const Source& other) const {
  std::unordered_map<std::uint64_t, std::int64_t> seen;
  for (const Packet& packet : first.ahead) seen.emplace(identity_of(packet), packet.time_ns);
  std::map<std::array<std::uint8_t, 16>, std::vector<std::int64_t>> differences;  // By sender.
  for (const Packet& packet : other.ahead) {
    const auto twin = seen.find(identity_of(packet));
    if (twin != seen.end()) differences[packet.source.raw].push_back(packet.time_ns - twin->second);
  }
  if (differences.empty()) return std::nullopt;
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = std::numeric_limits<std::int64_t>::min();
  for (auto& [sender, values] : differences) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    const std::int64_t median = values[values.size() / 2];
    least = std::min(least, median);
    most = std::max(most, median);
  }
  constexpr std::int64_t kSameClock = 1'000'000'000;
  // With packets of one sender only, the way can't be told from the clock: a good clock is assumed.
  if (differences.size() == 1) return least > -kSameClock && least < kSameClock ? 0 : least;
  return least + (most - least) / 2;
}

BothEnds::Source* BothEnds::earliest() {
  Source* best = nullptr;
  for (Source& source : sources_) {
    if (!peek(source)) continue;
    const auto time = [](const Source& s) { return s.ahead.front().time_ns - s.ahead_ns.value_or(0); };
    if (best == nullptr || time(source) < time(*best)) best = &source;
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
    Packet packet = std::move(source->ahead.front());
    source->ahead.pop_front();
    packet.time_ns -= source->ahead_ns.value_or(0);
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
    facts.back().clock_ahead_ns = source.ahead_ns;
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
