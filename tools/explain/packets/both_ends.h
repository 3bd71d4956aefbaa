// SPDX-License-Identifier: Apache-2.0
// The packets of one capture, or of the captures of both ends: then each packet once, with what became of it on the
// way.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/explain/packets/clocks.h"
#include "tools/explain/packets/packet.h"
#include "tools/explain/packets/passage.h"
#include "tools/explain/packets/twins.h"

namespace uroce::explain {

/// One capture file, at its end.
struct FileFacts {
  std::string name;
  std::uint64_t frames = 0, not_roce = 0, broken = 0;
  std::uint64_t passing = 0;   ///< Packets that were told when they passed another interface of the host.
  std::uint64_t tunneled = 0;  ///< Packets told that travelled in a tunnel ...
  std::string tunnel;          ///< ... of this kind (that of the first one).
  /// By how much its clock is ahead of the first file's, if packets are in both; the times told are without it.
  std::optional<std::int64_t> clock_ahead_ns;
  std::vector<ClockStep> set_back;     ///< Its clock was; the times told go on where they were.
  std::vector<ClockStep> clock_steps;  ///< Jumps against the first file's clock; the times told are without them.
  std::string first_broken;            ///< The first broken frame, in words.
  std::string unknown_link;            ///< A network that we do not know.
  std::string damage;                  ///< Where and why the capture ends early.
};

/// The packets of one file.
class Capture {
 public:
  static Result<std::unique_ptr<Capture>, std::string> open(const std::string& path, std::uint32_t number, bool follow);
  /// For tests.
  static Result<std::unique_ptr<Capture>, std::string> open(Input input, const std::string& name, std::uint32_t number);

  std::optional<Packet> next();
  FileFacts facts() const;
  const Input& input() const { return reader_.input(); }

 private:
  Capture(Reader reader, std::string name, std::uint32_t number) : reader_(std::move(reader)), dissector_(number) {
    facts_.name = std::move(name);
  }
  Reader reader_;
  Dissector dissector_;
  Passage passage_;
  FileFacts facts_;
};

class BothEnds {
 public:
  /// `live`: packets come slowly, so none is read ahead. That they come twice shows when some have been told.
  explicit BothEnds(bool live = false) : live_(live) {}
  /// What is wrong, if the capture can't be read. `is_cut`: it lacks packets before its first one.
  std::optional<std::string> open(const std::string& path, bool follow, bool is_cut = false);
  void add(std::unique_ptr<Capture> capture, bool is_cut = false);

  std::optional<Packet> next();

  /// One file has each packet twice, and does not say which sighting is the sender's: it is taken for the earlier one.
  bool is_doubled() const { return doubles_.any(); }

  std::vector<FileFacts> facts() const;
  std::uint64_t frames() const;
  /// Bytes read, of how many; 0 of 0 when that is not known.
  std::pair<std::uint64_t, std::uint64_t> progress() const;

 private:
  static constexpr std::size_t kAhead = 2000;  ///< Packets by which the captures are compared.
  static constexpr std::size_t kLooks = 20;    ///< Live: packets between two looks at those so far.
  struct Source {
    std::unique_ptr<Capture> capture;
    bool is_cut = false;
    SetBack set_back;
    std::deque<Packet> read;   ///< By the file's own times ...
    std::deque<Packet> ahead;  ///< ... and as if its clock had not been set back.
    std::optional<ClockDifference> clock;
    std::optional<std::int64_t> next_ns;  ///< The time of the next packet by the clock of the first file.
    bool ended = false;
  };
  bool peek(Source& source);
  void read_one(Source& source);
  void begin_again(Source& source);
  void prepare();
  bool look_for_doubles(const std::deque<Packet>& packets);
  void rehearse();
  void watch(const Packet& packet);
  bool was_told(const Packet& packet);
  Packet take(Source& source);
  Source* earliest();

  bool live_;
  bool prepared_ = false;
  bool twins_used_ = false;
  bool straightens_ = false;         ///< The times of captures whose clock is set back.
  std::deque<Packet> told_;          ///< Live, at the beginning.
  std::set<std::uint64_t> awaited_;  ///< Of what was told before it was known that it comes twice.
  Doubles doubles_;
  std::vector<Source> sources_;
  Sightings first_seen_;  ///< By the first of several files.
  Twins twins_;
};

}  // namespace uroce::explain
