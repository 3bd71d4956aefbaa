// SPDX-License-Identifier: Apache-2.0
// fuzz_parse on all golden frames: cut off everywhere, and with random damage under a fixed seed. (Its corpus is
// replayed in tests/judged/fuzz.)
#include <gtest/gtest.h>

#include <random>

#include "proto/frame.h"
#include "proto/packet.h"
#include "tests/unit/proto/golden.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace uroce::proto::test {
namespace {

void run(const std::vector<std::uint8_t>& bytes) { LLVMFuzzerTestOneInput(bytes.data(), bytes.size()); }

TEST(FuzzParse, SurvivesEveryTruncationOfAFrame) {
  std::size_t runs = 0;
  for (const GoldenFrame& golden : golden_frames()) {
    if (golden.bytes.size() > 120 || golden.number > 2) continue;
    for (std::size_t size = 0; size <= golden.bytes.size(); ++size, ++runs) {
      // A vector of exactly this size: the address sanitizer sees one byte too far.
      run({golden.bytes.begin(), golden.bytes.begin() + static_cast<std::ptrdiff_t>(size)});
    }
  }
  EXPECT_GT(runs, 1000u);
}

/// Damage that tends to keep a frame a frame.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::vector<std::uint8_t> next() {
    std::vector<std::uint8_t> bytes = pick_frame();
    // Half of the time BTH and what follows only, as a UDP socket gives it.
    constexpr std::size_t kHeaders = Ethernet::kSize + Ipv4::kSize + Udp::kSize;
    if (below(2) == 0 && bytes.size() > kHeaders) bytes.erase(bytes.begin(), bytes.begin() + kHeaders);
    for (std::size_t n = 1 + below(4); n > 0; --n) mutate(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  std::uint8_t byte() { return static_cast<std::uint8_t>(random_()); }

  const std::vector<std::uint8_t>& pick_frame() {
    const auto& frames = golden_frames();
    for (;;) {  // mostly short ones: headers are what is interesting
      const auto& bytes = frames[below(frames.size())].bytes;
      if (bytes.size() < 300 || below(16) == 0) return bytes;
    }
  }
  void mutate(std::vector<std::uint8_t>& bytes) {
    if (bytes.empty()) return bytes.push_back(byte());
    const std::size_t front = std::min<std::size_t>(bytes.size(), 90);
    switch (below(6)) {
      case 0:
        bytes[below(front)] ^= static_cast<std::uint8_t>(1u << below(8));
        break;
      case 1:
        bytes[below(front)] = byte();
        break;
      case 2:
        bytes[below(bytes.size())] = byte();
        break;
      case 3:
        bytes.resize(below(bytes.size() + 1));
        break;
      case 4:
        bytes.insert(bytes.end(), below(9), byte());
        break;
      default: {  // another frame's middle
        const auto& other = pick_frame();
        const std::size_t from = below(other.size());
        const std::size_t size = std::min({std::size_t{16}, other.size() - from, bytes.size()});
        std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(from), size, bytes.begin());
        break;
      }
    }
  }
  std::mt19937_64 random_;
};

TEST(FuzzParse, SurvivesDamagedFrames) {
  Mutator mutator(4791);
  int frames = 0;
  int packets = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::vector<std::uint8_t> bytes = mutator.next();
    run(bytes);
    frames += parse_frame(bytes).ok() ? 1 : 0;
    packets += parse_packet(bytes).ok() ? 1 : 0;
  }
  // The damage is such that much of it is still worth describing and building again.
  EXPECT_GT(frames, 10'000);
  EXPECT_GT(packets, 10'000);
}

}  // namespace
}  // namespace uroce::proto::test
