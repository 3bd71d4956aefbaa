// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/guarded_access.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "proto/crc32.h"
#include "verbs/ibverbs/host/guarded_memory.h"

namespace uroce::ibv::test {
namespace {

TEST(GuardedAccess, CopiesAreWholeWhereverTheBytesAre) {
  constexpr std::size_t kMost = 5000, kOffsets = 130;
  std::vector<std::uint8_t> from(kMost + kOffsets), to(kMost + kOffsets), wanted(kMost + kOffsets);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i % 251 + 1);
  for (const std::size_t size : {0u, 1u, 7u, 8u, 31u, 32u, 33u, 255u, 511u, 512u, 513u, 1024u, 4095u, 4096u, 5000u}) {
    for (std::size_t offset = 0; offset < kOffsets; ++offset) {
      for (const bool is_target : {true, false}) {
        const std::size_t source = is_target ? 0 : offset, target = is_target ? offset : 0;
        std::fill(wanted.begin(), wanted.end(), std::uint8_t{0});
        std::copy_n(from.data() + source, size, wanted.data() + target);
        for (const auto copy : {uroce_guarded_write, uroce_guarded_read}) {
          std::fill(to.begin(), to.end(), std::uint8_t{0});
          ASSERT_TRUE(copy(to.data() + target, from.data() + source, size));
          ASSERT_EQ(to, wanted) << size << " bytes from " << source << " to " << target;
        }
      }
    }
  }
}

/// How often somebody who watched the last byte of `copy`'s target for it saw older bytes in front of it.
template <class Copy>
int torn_copies(int copies, const Copy& copy) {
  constexpr std::size_t kSize = 2048;
  alignas(4096) static std::array<std::uint8_t, 3 * 4096> to;
  to.fill(0);
  auto* const target = static_cast<volatile std::uint8_t*>(to.data() + 128);
  std::vector<std::uint8_t> from(kSize);
  std::atomic<int> seen = 0;
  int torn = 0;
  std::thread watcher([&] {
    for (int i = 1; i <= copies; ++i) {
      const auto wanted = static_cast<std::uint8_t>(i);
      while (target[kSize - 1] != wanted) ::sched_yield();
      for (const std::size_t place : {std::size_t{0}, kSize / 4, kSize / 2, kSize - 2}) torn += target[place] != wanted;
      seen = i;
    }
  });
  for (int i = 1; i <= copies; ++i) {
    std::fill(from.begin(), from.end(), static_cast<std::uint8_t>(i));
    EXPECT_TRUE(copy(to.data() + 128, from.data(), kSize));
    while (seen != i) ::sched_yield();
  }
  watcher.join();
  return torn;
}

/// Programs watch the last byte of a message for its arrival. With the bare string operation, of 3 million copies that
/// one saw 102 torn (AMD EPYC 26/2).
TEST(GuardedAccess, TheLastByteIsTheLastToBeSeen) { EXPECT_EQ(torn_copies(300'000, uroce_guarded_write), 0); }

/// So it is where the kernel copies, as faults do not reach the handler.
TEST(GuardedAccess, TheLastByteIsTheLastThatTheKernelCopies) {
  sigset_t faults, before;
  ::sigemptyset(&faults);
  ::sigaddset(&faults, SIGSEGV);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &faults, &before), 0);
  GuardedMemory memory;
  memory.begin_turn(Instant{});
  EXPECT_EQ(torn_copies(50'000, [&](void* to, const void* from, std::size_t n) { return memory.write(to, from, n); }),
            0);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// How often two threads access the same word, each of them at least, so that they do at the same time, too.
constexpr int kAccesses = 100'000;

/// All zeros or all ones.
template <class Word>
bool is_one_of_both(Word word) {
  return word == 0 || word == static_cast<Word>(~Word{0});
}

/// How many words of type `Word` somebody saw that were partly written: `size` bytes are copied to `offset`, in turns
/// all zeros and all ones, while he looks at each word that lies at a multiple of its size.
template <class Word>
int words_split_by_write(std::size_t offset, std::size_t size) {
  alignas(4096) static std::array<std::uint8_t, 4096> to;
  to.fill(0);
  const std::size_t first = (offset + sizeof(Word) - 1) / sizeof(Word) * sizeof(Word);
  const std::size_t words = (offset + size - first) / sizeof(Word);
  std::atomic<int> writes = 0;
  std::atomic<bool> is_over = false;
  int split = 0;
  std::thread watcher([&] {
    for (std::size_t look = 0; look < kAccesses || writes < kAccesses; ++look) {
      split += !is_one_of_both(*reinterpret_cast<volatile Word*>(to.data() + first + look % words * sizeof(Word)));
    }
    is_over = true;
  });
  const std::vector<std::uint8_t> zeros(size, 0), ones(size, 0xFF);
  while (!is_over) {
    EXPECT_TRUE(uroce_guarded_write(to.data() + offset, ones.data(), size));
    EXPECT_TRUE(uroce_guarded_write(to.data() + offset, zeros.data(), size));
    ++writes;
  }
  watcher.join();
  return split;
}

/// Counters and flags, which a peer WRITEs and the program watches.
TEST(GuardedAccess, AWordIsWrittenAtOnce) {
  EXPECT_EQ(words_split_by_write<std::uint16_t>(64, 2), 0);
  EXPECT_EQ(words_split_by_write<std::uint32_t>(64, 4), 0);
  EXPECT_EQ(words_split_by_write<std::uint64_t>(64, 8), 0);
}

/// Also in the middle of what is written, wherever that begins and ends.
TEST(GuardedAccess, AWordInsideIsWrittenAtOnce) {
  EXPECT_EQ(words_split_by_write<std::uint32_t>(65, 8), 0);
  EXPECT_EQ(words_split_by_write<std::uint64_t>(68, 12), 0);
  EXPECT_EQ(words_split_by_write<std::uint64_t>(62, 66), 0);
  EXPECT_EQ(words_split_by_write<std::uint64_t>(64, 1028), 0);
}

/// How many words were read of which the program had written only a part: it writes one all the time, at the end of the
/// `size` bytes that are copied from there to `offset`.
template <class Word>
int words_split_by_read(std::size_t offset, std::size_t size) {
  alignas(4096) static std::array<std::uint8_t, 4096> from;
  std::array<std::uint8_t, 4096> to{};
  std::atomic<int> writes = 0;
  std::atomic<bool> is_over = false;
  std::thread program([&] {
    auto* const word = reinterpret_cast<volatile Word*>(from.data() + size - sizeof(Word));
    while (!is_over) {
      *word = static_cast<Word>(~Word{0});
      *word = 0;
      ++writes;
    }
  });
  int split = 0;
  for (int i = 0; i < 30 * kAccesses || writes < kAccesses; ++i) {  // One in a million was split.
    EXPECT_TRUE(uroce_guarded_read(to.data() + offset, from.data(), size));
    Word word = 0;
    std::memcpy(&word, to.data() + offset + size - sizeof word, sizeof word);
    split += !is_one_of_both(word);
  }
  is_over = true;
  program.join();
  return split;
}

/// Versions and locks, which the program writes and a peer READs: wherever in a packet they go.
TEST(GuardedAccess, AWordIsReadAtOnce) {
  EXPECT_EQ(words_split_by_read<std::uint16_t>(1, 2), 0);
  EXPECT_EQ(words_split_by_read<std::uint32_t>(2, 4), 0);
  EXPECT_EQ(words_split_by_read<std::uint64_t>(4, 8), 0);
  EXPECT_EQ(words_split_by_read<std::uint64_t>(4, 24), 0);
}

/// Wherever in it the memory ends: the quick copy (proto/crc32.cc) stops there, too.
TEST(GuardedAccess, ACopyWithCrcStopsWhereMemoryEnds) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const mapped = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const bytes = static_cast<std::uint8_t*>(mapped);
  for (std::size_t i = 0; i < page; ++i) bytes[i] = static_cast<std::uint8_t>(i % 251 + 1);
  ASSERT_EQ(::mprotect(bytes + page, page, PROT_NONE), 0);
  GuardedMemory memory;
  memory.begin_turn(Instant{});
  std::vector<std::uint8_t> to(page);
  for (const std::size_t there : {std::size_t{0}, std::size_t{100}, std::size_t{701}, std::size_t{3000}, page}) {
    const std::uint8_t* const from = bytes + page - there;
    std::uint32_t crc = 5;
    ASSERT_TRUE(memory.read_with_crc(to.data(), from, there, crc)) << there;
    EXPECT_EQ(crc, proto::crc32(5, {from, there})) << there;
    EXPECT_TRUE(std::equal(from, from + there, to.begin())) << there;
    if (there < page) {
      EXPECT_FALSE(memory.read_with_crc(to.data(), from, there + 1, crc)) << there;
      EXPECT_FALSE(memory.read_with_crc(to.data(), from, page, crc)) << there;
    }
  }
  ::munmap(mapped, 2 * page);
}

}  // namespace
}  // namespace uroce::ibv::test
