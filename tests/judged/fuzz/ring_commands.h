// SPDX-License-Identifier: Apache-2.0
// The language of fuzz_ring's inputs: what two processes do with a ring that they share, and what a broken one writes
// into its memory. Positions and places are relative, so that small numbers mean interesting ones.
#pragma once

#include "engine/shm/packet_ring.h"
#include "tests/judged/fuzz/archive.h"

namespace uroce::fuzz {

enum RingCommand : std::uint8_t {
  kRingWrite,    ///< WriteSpec
  kRingPublish,  ///< No fields.
  kRingRead,     ///< CountSpec: so many packets and one more.
  kRingRelease,  ///< No fields.
  kRingPump,     ///< WriteSpec: all of it through the ring, one by one.
  kRingPoke,     ///< PokeSpec
  kRingRace,     ///< RaceSpec
  kRingCommands,
};

struct WriteSpec {
  std::uint16_t size = 0;  ///< Modulo what a packet may have.
  std::uint8_t more = 0;   ///< Packets besides the first.
  std::uint8_t fill = 0;
  template <class Archive>
  void fields(Archive& archive) {
    archive(size), archive(more), archive(fill);
  }
};

struct CountSpec {
  std::uint8_t more = 0;
  template <class Archive>
  void fields(Archive& archive) {
    archive(more);
  }
};

/// A change that the rules of the ring do not allow: eight bytes at once.
struct PokeSpec {
  enum Place : std::uint8_t { kTail, kHead, kRecord, kAnywhere, kBeside, kPlaces };
  enum Base : std::uint8_t { kWhatIsThere, kNothing, kBases };
  std::uint8_t place = 0;
  std::uint8_t base = 0;  ///< What `value` is added to.
  std::uint64_t value = 0;
  std::uint32_t offset = 0;  ///< kRecord: from the record that is read next. kAnywhere: from the memory's beginning.
                             ///< kBeside: from the tail's word, and behind it.
  template <class Archive>
  void fields(Archive& archive) {
    archive(place), archive(base), archive(value), archive(offset);
  }
};

/// The same in the midst of a call: just before the code under test loads from the ring the next time but `later`.
struct RaceSpec {
  std::uint8_t later = 0;
  PokeSpec poke;
  template <class Archive>
  void fields(Archive& archive) {
    archive(later), poke.fields(archive);
  }
};

}  // namespace uroce::fuzz
