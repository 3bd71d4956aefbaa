// SPDX-License-Identifier: Apache-2.0
// What both engines must do alike, over real sockets on loopback.
#include "engine/port/port.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "engine/os/fd.h"
#include "engine/port/send_sockets.h"
#include "proto/address.h"
#include "proto/packet.h"
#include "tests/support/in_child.h"
#include "tests/support/port_fixture.h"

namespace uroce::test {
namespace {

using engine::PortCounters;
using testing::SizeIs;

INSTANTIATE_TEST_SUITE_P(Engines, PortTest, testing::ValuesIn(kPortCases), case_name);

TEST_P(PortTest, DeliversBytesAndPath) {
  proto::Path sent = path(1, 2);
  sent.tclass = 0x6A;  // DSCP 26, ECT(0)
  sent.hop_limit = 33;
  ASSERT_TRUE(queue(*a_, sent, 7, proto::kMaxPacketSize));
  a_->flush();
  Inbox inbox;
  receive(*b_, inbox, 1);
  ASSERT_THAT(inbox.packets, SizeIs(1));
  EXPECT_EQ(inbox.packets[0].path, sent);
  EXPECT_THAT(inbox.packets[0].bytes, SizeIs(proto::kMaxPacketSize));
  EXPECT_EQ(inbox.packets[0].bytes.back(), 7);
  EXPECT_EQ(a_->counters().sent_packets, 1u);
  EXPECT_EQ(a_->counters().sent_bytes, proto::kMaxPacketSize);
  EXPECT_EQ(b_->counters().received_packets, 1u);
  EXPECT_EQ(b_->counters().received_bytes, proto::kMaxPacketSize);
}

TEST_P(PortTest, EveryPacketHasItsOwnTrafficClassAndHopLimit) {
  Inbox inbox;
  for (std::uint8_t i = 0; i < 6; ++i) {
    proto::Path sent = path(1, 2);
    sent.tclass = static_cast<std::uint8_t>(i * 41);
    sent.hop_limit = static_cast<std::uint8_t>(200 - i);
    ASSERT_TRUE(queue(*a_, sent, i));
  }
  a_->flush();
  receive(*b_, inbox, 6);
  for (std::size_t i = 0; i < inbox.packets.size(); ++i) {
    EXPECT_EQ(inbox.packets[i].path.tclass, i * 41);
    EXPECT_EQ(inbox.packets[i].path.hop_limit, 200 - i);
  }
}

TEST_P(PortTest, SendsToItself) {
  ASSERT_TRUE(queue(*a_, path(1, 1), 5));
  Inbox inbox;
  receive(*a_, inbox, 1);  // exchange() sends as well
}

TEST_P(PortTest, BatchesLargerThanAnyRingArriveInOrder) {
  constexpr std::uint32_t kPackets = 2000;
  std::uint32_t next = 0;
  Inbox inbox;
  while (next < kPackets) {
    while (next < kPackets && queue(*a_, path(1, 2), next, 1024)) ++next;
    a_->flush();
  }
  EXPECT_EQ(a_->counters().sent_packets, kPackets);
  receive(*b_, inbox, kPackets);
  for (std::uint32_t i = 0; i < inbox.packets.size(); ++i) ASSERT_EQ(number_of(inbox.packets[i]), i);
}

TEST_P(PortTest, FramesRunOutAndComeBack) {
  std::uint32_t count = 0;
  while (count < 100'000 && queue(*a_, path(1, 2), count)) ++count;
  EXPECT_GE(count, 64u);
  EXPECT_LT(count, 100'000u);
  EXPECT_TRUE(a_->tx_frame().empty());
  a_->flush();
  EXPECT_FALSE(a_->tx_frame().empty());
}

TEST_P(PortTest, AFrameIsLentUntilItIsCommitted) {
  const MutBytes frame = a_->tx_frame();
  EXPECT_GE(frame.size(), proto::kMaxPacketSize);
  EXPECT_EQ(a_->tx_frame().data(), frame.data());
  a_->flush();
  EXPECT_EQ(a_->counters().sent_packets, 0u);
}

// Verbs turn the crank as well, and what they call may find no memory.
TEST_P(PortTest, GoesOnBehindASinkThatThrows) {
  struct Thrower final : engine::DatagramSink {
    void on_datagram(const proto::Datagram&) override {
      ++seen;
      throw std::bad_alloc();
    }
    int seen = 0;
  } thrower;
  constexpr std::uint32_t kCount = 40;
  for (std::uint32_t i = 0; i < kCount; ++i) ASSERT_TRUE(queue(*a_, path(1, 2), i));
  a_->flush();
  ASSERT_TRUE(b_->wait(engine::os_now() + 5s));
  EXPECT_THROW(b_->exchange(thrower, 64), std::bad_alloc);
  EXPECT_EQ(thrower.seen, 1);
  // What the kernel had handed over together with that one may be lost; each of the others comes once.
  for (std::uint32_t i = 0; i < kCount; ++i) ASSERT_TRUE(queue(*a_, path(1, 2), kCount + i));
  a_->flush();
  Inbox inbox;
  const Instant limit = engine::os_now() + 5s;
  while ((inbox.packets.empty() || number_of(inbox.packets.back()) + 1 != 2 * kCount) && engine::os_now() < limit) {
    if (b_->exchange(inbox, 64) == 0) b_->wait(limit);
  }
  ASSERT_THAT(inbox.packets, SizeIs(testing::Ge(kCount)));
  for (std::size_t i = 1; i < inbox.packets.size(); ++i) {
    EXPECT_GT(number_of(inbox.packets[i]), number_of(inbox.packets[i - 1]));
  }
}

TEST_P(PortTest, ReceivesAboutTheBudgetAndLosesNothing) {
  for (std::uint32_t i = 0; i < 200; ++i) ASSERT_TRUE(queue(*a_, path(1, 2), i));
  a_->flush();
  Inbox inbox;
  EXPECT_EQ(b_->exchange(inbox, 0), 0u);
  const std::size_t received = b_->exchange(inbox, 10);
  EXPECT_GE(received, 10u);
  EXPECT_LE(received, 10u + 64u);
  EXPECT_THAT(inbox.packets, SizeIs(received));
  receive(*b_, inbox, 200);
}

TEST_P(PortTest, OneSystemCallSendsAndReceivesThroughIoUring) {
  if (GetParam().engine != engine::EngineChoice::kIoUring) GTEST_SKIP() << "io_uring only";
  for (std::uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(queue(*a_, path(1, 1), i));
  Inbox inbox;
  EXPECT_EQ(a_->exchange(inbox, 64), 20u);
  EXPECT_EQ(a_->counters().system_calls, 1u);
}

TEST_P(PortTest, FewPacketsAreTakenWithOneSystemCallAndManyInOrder) {
  if (GetParam().engine != engine::EngineChoice::kIoUring) GTEST_SKIP() << "io_uring only";
  for (const std::uint32_t count : {0u, 1u, 5u, 60u}) {
    for (std::uint32_t i = 0; i < count; ++i) ASSERT_TRUE(queue(*a_, path(1, 2), i));
    a_->flush();
    Inbox inbox;
    const std::uint64_t before = b_->counters().system_calls;
    EXPECT_EQ(b_->exchange(inbox, 64), count);
    EXPECT_LE(b_->counters().system_calls - before, count > 5 ? 3u : 1u);
    for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(number_of(inbox.packets.at(i)), i);
  }
}

// A receive that was not submitted must not be with what flush() sends, which has nobody to give the packet to.
TEST_P(PortTest, LosesNothingWhenTheKernelTakesNoSubmissionsForATime) {
  if (GetParam().engine != engine::EngineChoice::kIoUring) GTEST_SKIP() << "io_uring only";
  const engine::Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  std::vector<std::pair<int, engine::Fd>> rings;
  for (int fd = 3; fd < null.get(); ++fd) {
    std::array<char, 64> target{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (::readlink(link.c_str(), target.data(), target.size() - 1) <= 0) continue;
    if (std::strcmp(target.data(), "anon_inode:[io_uring]") == 0) rings.emplace_back(fd, engine::Fd(::dup(fd)));
  }
  ASSERT_FALSE(rings.empty());
  Inbox at_b;
  ASSERT_TRUE(queue(*a_, path(1, 2), 0));
  a_->flush();
  receive(*b_, at_b, 1);
  for (const auto& ring : rings) ASSERT_EQ(::dup2(null.get(), ring.first), ring.first);
  for (std::uint8_t i = 0; i < 2; ++i) ASSERT_TRUE(queue(*a_, path(1, 2), i));
  Inbox inbox;
  EXPECT_EQ(a_->exchange(inbox, 8), 0u);
  for (const auto& ring : rings) ASSERT_EQ(::dup2(ring.second.get(), ring.first), ring.first);

  ASSERT_TRUE(queue(*b_, path(2, 1), 9));
  b_->flush();
  ASSERT_TRUE(queue(*a_, path(1, 2), 2));
  a_->flush();
  receive(*a_, inbox, 1);
  EXPECT_THAT(inbox.packets, SizeIs(1));
  receive(*b_, at_b, 4);
  EXPECT_THAT(at_b.packets, SizeIs(4));
}

TEST_P(PortTest, EmptyAndOverlongDatagramsAreDeliveredAsTheyAre) {
  const engine::SocketAddress to(address(2), proto::kRocePort);
  const engine::Fd fd(::socket(to.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::vector<std::uint8_t> bytes(9000);
  for (const std::size_t size : {std::size_t{0}, bytes.size(), std::size_t{1}}) {
    ASSERT_EQ(::sendto(fd.get(), bytes.data(), size, 0, to.get(), to.size), static_cast<ssize_t>(size));
  }
  Inbox inbox;
  EXPECT_EQ(b_->exchange(inbox, 64), 3u);
  ASSERT_THAT(inbox.packets, SizeIs(3));
  EXPECT_THAT(inbox.packets[0].bytes, SizeIs(0));
  EXPECT_GT(inbox.packets[1].bytes.size(), proto::kMaxPacketSize) << "must not pass for a packet of legal size";
  EXPECT_THAT(inbox.packets[2].bytes, SizeIs(1));
}

TEST_P(PortTest, ARefusedPacketIsCountedAndHoldsNobodyUp) {
  proto::Path nowhere = path(1, 2);
  nowhere.destination = GetParam().v6 ? proto::Gid{{0x20, 0x01, 0x0d, 0xb8}} : proto::Gid::from_v4(192, 0, 2, 1);
  ASSERT_TRUE(queue(*a_, path(1, 2), 0));
  ASSERT_TRUE(queue(*a_, nowhere, 1));
  ASSERT_TRUE(queue(*a_, path(1, 2), 2));
  a_->flush();
  Inbox inbox;
  receive(*b_, inbox, 2);
  EXPECT_EQ(a_->counters().send_errors, 1u);
  EXPECT_EQ(a_->counters().last_send_error, ENETUNREACH);
  EXPECT_EQ(a_->counters().sent_packets, 2u);
}

TEST_P(PortTest, CountsWhatTheKernelDropped) {
  constexpr std::uint32_t kPackets = 12'000;  // 48 MB of payload into 16 MiB
  for (std::uint32_t i = 0; i < kPackets;) {
    if (queue(*a_, path(1, 2), i, 4096)) {
      ++i;
    } else {
      a_->flush();
    }
  }
  a_->flush();
  Inbox inbox;
  while (b_->exchange(inbox, 64) > 0) inbox.packets.clear();
  const PortCounters counters = b_->counters();
  EXPECT_GT(counters.receive_overruns, 0u);
  EXPECT_EQ(counters.received_packets + counters.receive_overruns, kPackets);
}

TEST_P(PortTest, WaitEndsWithAPacket) {
  ASSERT_TRUE(queue(*a_, path(1, 2), 1));
  a_->flush();
  const Instant limit = engine::os_now() + 5s;
  EXPECT_TRUE(b_->wait(limit));
  EXPECT_LT(engine::os_now(), limit);
}

TEST_P(PortTest, WaitEndsAtTheDeadlineAndNotForMaskedPackets) {
  b_->mask_packets(true);
  ASSERT_TRUE(queue(*a_, path(1, 2), 1));
  a_->flush();
  const Instant deadline = engine::os_now() + 20ms;
  EXPECT_FALSE(b_->wait(deadline));
  EXPECT_GE(engine::os_now(), deadline);
  EXPECT_FALSE(b_->wait(engine::os_now() - 1s)) << "in the past: returns at once";
}

TEST_P(PortTest, UnmaskedPacketsEndTheWaitThatRuns) {
  b_->mask_packets(true);
  ASSERT_TRUE(queue(*a_, path(1, 2), 1));
  a_->flush();
  std::thread other([this] { b_->mask_packets(false); });
  EXPECT_TRUE(b_->wait(engine::os_now() + 5s));
  other.join();
}

TEST_P(PortTest, WakeEndsTheWaitThatRunsOrTheNextOne) {
  a_->wake();
  EXPECT_TRUE(a_->wait(std::nullopt));
  std::thread other([this] { a_->wake(); });
  a_->wait(std::nullopt);
  other.join();
}

TEST_P(PortTest, SourcePortsAreSharedBeyondTheLimit) {
  std::set<std::uint16_t> ports;
  std::vector<std::uint16_t> all;
  constexpr std::uint16_t kWanted = engine::SendSockets::kMax + 44;
  for (std::uint16_t i = 0; i < kWanted; ++i) {
    const std::uint16_t port = a_->acquire_source_port(address(1), static_cast<std::uint16_t>(0xC000 + i));
    if (i < engine::SendSockets::kMaxAcquired) {
      EXPECT_EQ(port, 0xC000 + i);
    }
    all.push_back(port);
    ports.insert(port);
  }
  EXPECT_THAT(ports, SizeIs(engine::SendSockets::kMaxAcquired));
  Inbox inbox;
  for (std::uint16_t i = 0; i < kWanted; ++i) {
    proto::Path sent = path(1, 2);
    sent.source_port = all[i];
    if (!queue(*a_, sent, i)) {
      a_->flush();
      ASSERT_TRUE(queue(*a_, sent, i));
    }
  }
  a_->flush();
  receive(*b_, inbox, kWanted);
  for (const Inbox::Packet& packet : inbox.packets) {
    EXPECT_EQ(packet.path.source_port, all[number_of(packet)]) << "the ICRC covers it";
  }
  // What nobody uses any more makes room.
  a_->release_source_port(address(1), all[0]);
  EXPECT_EQ(all[0], 0xC000);
  while (std::count(all.begin(), all.end(), 0xC000) > 1) {  // It was shared.
    a_->release_source_port(address(1), 0xC000);
    all.erase(std::find(all.begin() + 1, all.end(), 0xC000));
  }
  EXPECT_EQ(a_->acquire_source_port(address(1), 0xE123), 0xE123);
}

TEST_P(PortTest, SeveralAddressesOnOnePort) {
  a_.reset();
  b_.reset();
  const proto::Gid both[] = {address(1), address(2)};
  auto opened = engine::open_port(both, GetParam().engine);
  ASSERT_TRUE(opened) << opened.error().sentence;
  a_ = std::move(*opened);
  ASSERT_TRUE(queue(*a_, path(1, 2), 1));
  ASSERT_TRUE(queue(*a_, path(2, 1), 2));
  a_->flush();
  Inbox inbox;
  receive(*a_, inbox, 2);
  for (const Inbox::Packet& packet : inbox.packets) {
    EXPECT_EQ(packet.path, number_of(packet) == 1 ? path(1, 2) : path(2, 1));
  }
}

TEST_P(PortTest, WaitEndsWithAPacketForAnyOfManyAddressesOrForAGroup) {
  if (GetParam().v6 || GetParam().engine == engine::EngineChoice::kIoUring) {
    GTEST_SKIP() << "IPv6 has three addresses here, io_uring takes seven";
  }
  b_.reset();
  std::vector<proto::Gid> many;
  for (std::uint8_t number = 2; number < 42; ++number) many.push_back(address(number));
  auto opened = engine::open_port(many, GetParam().engine);
  ASSERT_TRUE(opened) << opened.error().sentence;
  b_ = std::move(*opened);
  const proto::Gid group = proto::Gid::from_v4(239, 1, 2, 3);
  ASSERT_EQ(b_->join_group(group), 0);
  proto::Path to_group = path(1, 2);
  to_group.destination = group;
  std::vector<proto::Path> paths{to_group};
  for (const proto::Gid& destination : many) {
    paths.push_back(path(1, 2));
    paths.back().destination = destination;
  }
  for (const proto::Path& sent : paths) {
    ASSERT_TRUE(queue(*a_, sent, 1));
    a_->flush();
    ASSERT_TRUE(b_->wait(engine::os_now() + 5s)) << proto::to_string(sent.destination);
    Inbox inbox;
    b_->exchange(inbox, 64);
    ASSERT_THAT(inbox.packets, SizeIs(1));
    EXPECT_EQ(inbox.packets[0].path.destination, sent.destination);
  }
}

// perftest's own group is ff01:..., and the kernel takes no such address without an interface.
TEST_P(PortTest, JoinsIpv6GroupsOfEveryScope) {
  if (!GetParam().v6) GTEST_SKIP() << "IPv4 groups have no scope";
  for (const int scope : {1, 2, 5, 14}) {
    const proto::Gid group{{0xFF, static_cast<std::uint8_t>(scope), 0, 0, 0, 2, 0xC9, 0x85}};
    EXPECT_EQ(a_->join_group(group), 0) << proto::to_string(group);
    a_->leave_group(group);
  }
}

TEST_P(PortTest, AnyThreadMayUseItAsLongAsOneDoesAtATime) {
  Inbox inbox;
  for (std::uint32_t i = 0; i < 20; ++i) {
    std::thread([&] {
      ASSERT_TRUE(queue(*a_, path(1, 2), i));
      a_->flush();
      b_->exchange(inbox, 64);
    }).join();
  }
  receive(*b_, inbox, 20);
  for (std::uint32_t i = 0; i < inbox.packets.size(); ++i) EXPECT_EQ(number_of(inbox.packets[i]), i);
}

// Linux does that to a thread that has used an io_uring, up to 50 ms after the ring is closed.
TEST_P(PortTest, ClosingItInterruptsNoSystemCallOfItsUsers) {
  std::thread([&] {  // A thread of its own has used no ring of other tests.
    ASSERT_TRUE(queue(*a_, path(1, 2), 1));
    a_->flush();
    Inbox inbox;
    receive(*b_, inbox, 1);
    a_.reset();
    b_.reset();
    const engine::Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{};
    errno = 0;
    EXPECT_EQ(::epoll_wait(epoll.get(), &event, 1, 100), 0) << std::strerror(errno);
  })
      .join();
}

TEST_P(PortTest, AChildOfForkCanLetGoWithoutHarmToItsParent) {
  ASSERT_TRUE(queue(*a_, path(1, 2), 1));
  a_->flush();
  const pid_t child = ::fork();
  if (child == 0) {
    a_->abandon_after_fork();
    b_->abandon_after_fork();
    a_.reset();
    b_.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(queue(*a_, path(1, 2), 2));
  a_->flush();
  Inbox inbox;
  receive(*b_, inbox, 2);
}

// As where it has no memory for another one.
TEST_P(PortTest, SendsFromSocketsThatTheKernelDoesNotRegister) {
  const std::string refused = in_child([] {
    const auto late = open(address(3));
    forbid({SYS_io_uring_register}, ENOMEM);
    proto::Path other = path(3, 2);
    other.tclass = 0x6A;  // In a control message.
    if (!queue(*late, path(3, 2), 0) || !queue(*late, path(3, 2), 1) || !queue(*late, other, 2)) return "no frame";
    late->flush();
    return late->counters().send_errors == 0 ? "sent" : "refused";
  });
  EXPECT_EQ(refused, "sent");
  Inbox inbox;
  receive(*b_, inbox, 3);
}

}  // namespace
}  // namespace uroce::test
