// SPDX-License-Identifier: Apache-2.0
// Seeds of fuzz_ring.
#include <utility>

#include "tests/judged/fuzz/ring_commands.h"
#include "tests/judged/fuzz/seeds.h"

namespace uroce::fuzz {
namespace {

constexpr std::uint16_t kFull = proto::kMaxPacketSize;

class RingSeed {
 public:
  template <class Spec>
  RingSeed& add(RingCommand command, Spec spec) {
    Writer body;
    spec.fields(body);
    return add_bytes(command, body.bytes);
  }
  RingSeed& add_bytes(RingCommand command, const std::vector<std::uint8_t>& body) {
    bytes_.push_back(command);
    bytes_.push_back(static_cast<std::uint8_t>(body.size()));
    bytes_.insert(bytes_.end(), body.begin(), body.end());
    return *this;
  }
  RingSeed& write(std::uint16_t size, std::uint8_t more = 0) { return add(kRingWrite, WriteSpec{size, more, 7}); }
  RingSeed& pump(std::uint16_t size, std::uint8_t more) { return add(kRingPump, WriteSpec{size, more, 9}); }
  RingSeed& publish() { return add_bytes(kRingPublish, {}); }
  RingSeed& read(std::uint8_t more = 0) { return add(kRingRead, CountSpec{more}); }
  RingSeed& release() { return add_bytes(kRingRelease, {}); }
  RingSeed& poke(const PokeSpec& spec) { return add(kRingPoke, spec); }
  RingSeed& race(std::uint8_t later, const PokeSpec& spec) { return add(kRingRace, RaceSpec{later, spec}); }

  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

PokeSpec poke_of(PokeSpec::Place place, std::uint64_t value, PokeSpec::Base base = PokeSpec::kNothing) {
  return {place, base, value, 0};
}

}  // namespace

void add_ring_seeds(std::vector<Seed>& seeds) {
  const auto add = [&seeds](const char* name, const RingSeed& seed) { seeds.push_back({"ring", name, seed.bytes()}); };
  const auto some = [] { return RingSeed().write(100, 3).publish(); };
  const auto tail = [](std::uint64_t value, PokeSpec::Base base) { return poke_of(PokeSpec::kTail, value, base); };
  const auto head = [](std::uint64_t value, PokeSpec::Base base) { return poke_of(PokeSpec::kHead, value, base); };

  add("good_some", some().read(4).release());
  add("good_unpublished", RingSeed().write(0, 9).read().publish().read(10).release());
  add("good_round_and_round", RingSeed().pump(kFull, 255).pump(4000, 255).pump(1, 20));
  add("good_full", RingSeed().write(kFull, 255).publish().read(100).release().write(kFull, 100).publish().read(255));

  add("bad_tail_backwards", some().read().poke(tail(0, PokeSpec::kNothing)).read(3));
  add("bad_tail_far_ahead", some().poke(tail(engine::kRingBytes, PokeSpec::kWhatIsThere)).read(3));
  add("bad_tail_a_whole_ring", RingSeed().poke(tail(engine::kRingBytes, PokeSpec::kNothing)).read(255).read(255));
  add("bad_tail_between_records", some().poke(tail(16, PokeSpec::kWhatIsThere)).read(6));
  add("bad_size_beyond_packets", some().poke(poke_of(PokeSpec::kRecord, kFull + 1)).read());
  add("bad_size_beyond_all", some().poke(poke_of(PokeSpec::kRecord, 0xFFFF'FFFF)).read());
  add("bad_size_beyond_tail", some().poke(poke_of(PokeSpec::kRecord, kFull)).read());
  add("bad_head_backwards",
      some().read(3).release().write(1).poke(head(~std::uint64_t{63}, PokeSpec::kWhatIsThere)).write(kFull, 255));
  add("bad_head_beyond_tail", some().poke(head(1 << 20, PokeSpec::kNothing)).write(kFull, 255).write(kFull, 255));
  add("bad_head_of_what_is_unread", some().poke(head(64, PokeSpec::kNothing)).write(kFull, 255).publish().read(255));
  const auto little = [] { return RingSeed().write(20).write(80).publish(); };
  const auto size_beside = [](std::uint32_t size) { return poke_of(PokeSpec::kBeside, size); };
  add("good_beside", little().read(2).write(84).publish().read().release().write(0, 14).publish().read(20));
  add("good_behind_what_is_beside", RingSeed().write(20).publish().write(20).publish().read(2).release());
  add("bad_size_beside", little().poke(size_beside(21)).read(2));
  add("bad_size_beside_beyond_all", little().poke(size_beside(0xFFFF'FFFF)).read(2));
  add("bad_size_beside_as_the_tail_says",
      RingSeed().write(4000).publish().poke(size_beside(4000)).poke(tail(1, PokeSpec::kWhatIsThere)).read(2));
  add("bad_words_beside", little().poke(tail(1, PokeSpec::kWhatIsThere)).read(2));
  // Loads of a first read(): the tail, what is beside it, the tail again, the header.
  add("race_beside", little().race(3, size_beside(30)).read(2));
  add("race_tail_behind_what_is_beside", little().race(16, tail(1, PokeSpec::kWhatIsThere)).read(2));
  add("race_size", some().race(1, poke_of(PokeSpec::kRecord, kFull)).read());
  add("race_size_later", some().race(2, poke_of(PokeSpec::kRecord, 0xFFFF'FFFF)).read(3));
  add("race_tail", some().race(1, tail(0, PokeSpec::kNothing)).read(3));
}

}  // namespace uroce::fuzz
