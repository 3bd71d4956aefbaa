// SPDX-License-Identifier: Apache-2.0
// Leases and their broker.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "engine/broker/start_broker.h"
#include "tests/support/in_child.h"
#include "tests/unit/broker/lease_fixture.h"

namespace uroce::engine {
namespace {

using testing::HasSubstr;

/// On how many processors `process` may run; 0: this thread.
int processors_of(pid_t process) {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  EXPECT_EQ(::sched_getaffinity(process, sizeof processors, &processors), 0);
  return CPU_COUNT(&processors);
}

TEST_F(LeaseTest, EveryLeaseIsAnotherSlotAndReceivesItsPackets) {
  std::vector<Slot> slots;
  std::set<std::uint8_t> numbers;
  for (int i = 0; i < 8; ++i) {
    slots.push_back(lease());
    numbers.insert(slots.back().number());
    EXPECT_NE(slots.back().number(), kManagementSlot);
    EXPECT_GE(slots.back().lease->first_local(), 0x11);
  }
  EXPECT_EQ(numbers.size(), slots.size());
  for (const Slot& slot : slots) EXPECT_TRUE(receives(slot));
  while (slots.size() > 1) {
    slots.erase(slots.begin());
    for (const Slot& slot : slots) EXPECT_TRUE(receives(slot));
  }
}

TEST_F(LeaseTest, ASlotThatIsGivenBackIsTheLastToBeLeasedAgain) {
  const Slot first = lease();
  const std::uint8_t given_back = lease().number();
  std::vector<Slot> others;
  for (std::size_t i = 0; i < kSlots - 3; ++i) {
    others.push_back(lease());
    ASSERT_NE(others.back().number(), given_back);
  }
  EXPECT_EQ(lease().number(), given_back);
}

TEST_F(LeaseTest, WithoutAFreeSlotTheAddressIsInUse) {
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < kSlots - 1; ++i) slots.push_back(lease());
  EXPECT_EQ(refusal().error, EADDRINUSE);
  EXPECT_THAT(refusal().sentence, HasSubstr("all of its slots"));
  EXPECT_EQ(refusal(slots.front().number()).error, EBUSY);
  EXPECT_EQ(refusal(kManagementSlot).error, EBUSY);
  EXPECT_EQ(refusal(255).error, EBUSY);
}

TEST_F(LeaseTest, AKilledProcessGivesItsSlotBackEmpty) {
  const Slot mine = lease();
  Holder holder;
  holder.signal(SIGSTOP);  // It reads nothing.
  const auto sender = open_send_socket(kLocal, 0xC001);
  const std::array<std::uint8_t, 16> packet{0, 0, 0, 0, 0, holder.slot()};
  const SocketAddress to(kLocal, proto::kRocePort);
  for (int i = 0; i < 100; ++i) ::sendto(sender->get(), packet.data(), packet.size(), 0, to.get(), to.size);
  EXPECT_EQ(refusal(holder.slot()).error, EBUSY);
  holder.kill();
  std::optional<Slot> again;
  EXPECT_TRUE(eventually([&] {
    auto taken = Lease::acquire(kLocal, holder.slot(), kBroker);
    if (!taken) return false;
    again.emplace(Slot{.lease = std::move(*taken), .socket = {}});
    return true;
  }));
  again->socket = again->lease->take_socket();
  char byte = 0;
  EXPECT_LT(::recv(again->socket.fd.get(), &byte, 1, MSG_DONTWAIT), 0) << "a packet for the killed process";
  EXPECT_TRUE(receives(*again));
  EXPECT_TRUE(receives(mine));
}

TEST_F(LeaseTest, TheBrokerEndsWithTheLastLease) {
  pid_t process = 0;
  {
    const Slot slot = lease();
    process = broker();
    EXPECT_GT(process, 0);
    EXPECT_FALSE(is_dead(process));
  }
  EXPECT_TRUE(eventually([process] { return is_dead(process); }));
}

// As by prlimit(1): ppoll(2) refuses more descriptors than the limit allows, though they are open.
TEST_F(LeaseTest, ABrokerThatMayHaveNoMoreDescriptorsSeesTheEndOfThoseItHas) {
  pid_t process = 0;
  {
    const Slot slots[] = {lease(), lease(), lease(), lease()};
    process = broker();
    const rlimit few{.rlim_cur = 2, .rlim_max = 2};
    ASSERT_EQ(::prlimit(process, RLIMIT_NOFILE, &few, nullptr), 0);
  }
  EXPECT_TRUE(eventually([process] { return is_dead(process); }));
}

TEST_F(LeaseTest, OneBrokerServesThoseWhoComeAtOnce) {
  std::vector<std::unique_ptr<Holder>> holders;
  for (int i = 0; i < 4; ++i) holders.push_back(std::make_unique<Holder>());
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<Slot> slots;
  holders.clear();  // The address falls idle while the next ones come.
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      Slot slot = lease();
      const std::lock_guard lock(mutex);
      slots.push_back(std::move(slot));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint8_t> numbers;
  for (const Slot& slot : slots) numbers.insert(slot.number());
  EXPECT_EQ(numbers.size(), 8u);
  for (const Slot& slot : slots) EXPECT_TRUE(receives(slot));
}

TEST_F(LeaseTest, NobodyMissesAPacketWhenTheBrokerIsKilled) {
  std::vector<Slot> slots;
  for (int i = 0; i < 4; ++i) slots.push_back(lease());
  for (int i = 0; i < 3; ++i) {
    const pid_t old = broker();
    ::kill(old, SIGKILL);
    EXPECT_TRUE(eventually([old] { return is_dead(old); }));
    for (const Slot& slot : slots) EXPECT_TRUE(receives(slot));
    EXPECT_TRUE(eventually([old] { return broker() != 0 && broker() != old; }));
    // The new one knows who has what, in any order of arrival.
    slots.push_back(lease());
    for (const Slot& slot : slots) {
      EXPECT_TRUE(receives(slot));
      EXPECT_EQ(refusal(slot.number()).error, EBUSY);
    }
  }
  slots.erase(slots.begin(), slots.begin() + 3);
  for (const Slot& slot : slots) EXPECT_TRUE(receives(slot));
}

TEST_F(LeaseTest, ANewBrokerKnowsWhatOthersListenFor) {
  constexpr std::uint32_t kTheirService = 0x01061C16;
  const Slot first = lease();
  auto claim = first.lease->claim_service(kTheirService);
  ASSERT_TRUE(claim);
  replace_broker();
  const Slot second = lease();
  EXPECT_EQ(second.lease->claim_service(kTheirService).error(), EADDRINUSE);
  *claim = Fd();
  EXPECT_TRUE(second.lease->claim_service(kTheirService));
}

TEST_F(LeaseTest, ANewBrokerDoesNotLeaseTheSlotOfAProcessThatStandsStill) {
  const Holder stopped;
  std::vector<Slot> slots;
  slots.push_back(lease());
  stopped.signal(SIGSTOP);
  replace_broker();
  for (std::size_t i = 0; i < kSlots - 3; ++i) {
    slots.push_back(lease());
    ASSERT_NE(slots.back().number(), stopped.slot());
  }
  EXPECT_EQ(refusal().error, EADDRINUSE);
  EXPECT_EQ(refusal(stopped.slot()).error, EBUSY);
  stopped.signal(SIGCONT);
}

TEST_F(LeaseTest, WhoComesWhenOnlySuchAProcessIsLeftIsToldSo) {
  {
    const Holder stopped;
    stopped.signal(SIGSTOP);
    ::kill(broker(), SIGKILL);
    EXPECT_TRUE(eventually([] { return broker() == 0; }));
    const SetupError error = refusal();
    EXPECT_EQ(error.error, EADDRINUSE);
    EXPECT_THAT(error.sentence, HasSubstr("lost their broker"));
    EXPECT_THAT(error.sentence, HasSubstr("UROCE_ADDR="));
    stopped.signal(SIGCONT);  // Now it comes back.
    EXPECT_TRUE(eventually([] { return Lease::acquire(kLocal, std::nullopt, kBroker).ok(); }));
  }
}

TEST_F(LeaseTest, AnAddressThatIsTakenAloneIsRefusedAtOnce) {
  const auto alone = open_receive_socket(kLocal);
  ASSERT_TRUE(alone);
  const Instant start = os_now();
  const SetupError error = refusal();
  EXPECT_LT(os_now() - start, 1500ms);
  EXPECT_EQ(error.error, EADDRINUSE);
  EXPECT_THAT(error.sentence, HasSubstr("another NIC"));
  const auto foreign = Lease::acquire(proto::Gid::from_v4(192, 0, 2, 1), std::nullopt, kBroker);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().error, EADDRNOTAVAIL);
}

TEST_F(LeaseTest, AnotherUserIsToldWhoHasTheAddress) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a second user";
  const Slot slot = lease();
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    const SetupError error = refusal();
    ::_exit(error.error == EADDRINUSE && error.sentence.find("user 0") != std::string::npos &&
                    error.sentence.find("UROCE_ADDR=") != std::string::npos
                ? 0
                : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

/// A user whose hard limit lets one address be shared, but not two.
TEST_F(LeaseTest, TooManySharedAddressesAreRefusedAtOnce) {
  const std::string said = test::in_child([]() -> std::string {
    constexpr rlim_t kOneAddress = 240;
    const rlimit limit{.rlim_cur = kOneAddress, .rlim_max = kOneAddress};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return "no limit";
    if (::geteuid() == 0 && ::setresuid(54322, 54322, 54322) != 0) return "no user";  // Root may have more.
    if (::access(kBroker.c_str(), X_OK) != 0) return "no broker for others";
    const auto first = Lease::acquire(kLocal, std::nullopt, kBroker);
    if (!first) return first.error().sentence;
    const Instant start = os_now();
    const auto second = Lease::acquire(kOther, std::nullopt, kBroker);
    if (second) return "a second lease";
    if (os_now() - start > 5s) return "late: " + second.error().sentence;
    return second.error().error == ETOOMANYREFS ? second.error().sentence
                                                : "errno " + std::to_string(second.error().error);
  });
  if (said == "no broker for others") GTEST_SKIP() << "other users can't execute " << kBroker;
  EXPECT_THAT(said, HasSubstr("128 for each shared address"));
}

TEST_F(LeaseTest, WithoutABrokerThereIsNoLease) {
  for (const char* executable : {"/nowhere/uroce-broker", "/bin/true"}) {
    const SetupError error = refusal(std::nullopt, executable);
    EXPECT_EQ(error.error, ECHILD);
    EXPECT_THAT(error.sentence, HasSubstr(executable));
  }
}

TEST_F(LeaseTest, WithoutDescriptorsForAllOfItThereIsNoLease) {
  const Slot broker_runs = lease();
  rlimit former{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &former), 0);
  const Fd next_free(::dup(0));
  constexpr rlim_t kPlenty = 16, kConnection = 2;
  bool was_enough = true;
  for (rlim_t more = kPlenty; more >= kConnection; --more) {
    rlimit lowered = former;
    lowered.rlim_cur = static_cast<rlim_t>(next_free.get()) + more;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
    const auto lease = Lease::acquire(kLocal, std::nullopt, kBroker);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &former), 0);
    if (lease) {
      EXPECT_TRUE(was_enough);
      EXPECT_EQ((*lease)->steer_management(), 0) << more << " descriptors were not enough";
    } else {
      was_enough = false;
      EXPECT_LT(more, kPlenty);
      EXPECT_EQ(lease.error().error, EMFILE) << lease.error().sentence;
      EXPECT_THAT(lease.error().sentence, HasSubstr("ulimit -n"));
    }
  }
  EXPECT_FALSE(was_enough) << "it can't do without any";
}

TEST_F(LeaseTest, ABrokerThatIsKilledBeforeItSaysAnythingIsStartedAgain) {
  const std::string folder = testing::TempDir() + "uroce-killed-broker-" + std::to_string(::getpid());
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  const std::string executable = folder + "/uroce-broker";
  std::ofstream(executable) << "#!/bin/sh\nmkdir '" << folder << "/begun' 2>&- && kill -9 $$\nexec '" << kBroker
                            << "' \"$@\"\n";
  std::filesystem::permissions(executable, std::filesystem::perms::owner_all);
  { const Slot slot = lease(std::nullopt, executable); }
  EXPECT_TRUE(std::filesystem::exists(folder + "/begun"));
  std::filesystem::remove_all(folder);
}

TEST_F(LeaseTest, TheBrokerIsNoChildAndInheritsNothing) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);  // Not close-on-exec, as a program's may be.
  const Slot slot = lease();
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
  EXPECT_EQ(errno, ECHILD);
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "somebody still has the other end";
  ::close(ends[0]);
}

/// As others depend on it, too.
TEST_F(LeaseTest, TheBrokerRunsWhereAndWhenOthersDo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs the right to lower a nice value";
  if (processors_of(0) < 2) GTEST_SKIP() << "needs two processors";
  std::optional<Slot> slot;
  std::thread([&slot] {  // All of it is of a thread.
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(::sched_getcpu(), &first);
    const sched_param none{};
    ::sched_setaffinity(0, sizeof first, &first);
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 5);
    ASSERT_EQ(::sched_setscheduler(0, SCHED_BATCH, &none), 0);
    slot = lease();
  })
      .join();
  const pid_t process = broker();
  EXPECT_EQ(::sched_getscheduler(process), SCHED_OTHER);
  EXPECT_EQ(::getpriority(PRIO_PROCESS, static_cast<id_t>(process)), 0);
  EXPECT_GE(processors_of(process), processors_of(0));
}

TEST_F(LeaseTest, TheLeaseOfAParentEndsWithItAndNotWithItsChildren) {
  const Slot mine = lease();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    Slot slot = lease();
    slot.lease->before_fork();
    const pid_t child = ::fork();
    if (child == 0) {
      slot.socket.fd.reset();
      slot.lease->after_fork_in_child();
      while (true) ::pause();
    }
    slot.lease->after_fork_in_parent();
    const std::array<pid_t, 2> report{child, slot.number()};
    [[maybe_unused]] const ssize_t n = ::write(ends[1], report.data(), sizeof report);
    while (true) ::pause();
  }
  std::array<pid_t, 2> report{};
  ASSERT_EQ(::read(ends[0], report.data(), sizeof report), static_cast<ssize_t>(sizeof report));
  ::close(ends[0]);
  ::close(ends[1]);
  const auto number = static_cast<std::uint8_t>(report[1]);
  EXPECT_EQ(refusal(number).error, EBUSY);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(eventually([number] { return Lease::acquire(kLocal, number, kBroker).ok(); }));
  ::kill(report[0], SIGKILL);
}

TEST_F(LeaseTest, ANicHasTheSameSlotAtAllOfItsAddresses) {
  std::vector<Slot> in_the_way;
  for (int i = 0; i < 5; ++i) in_the_way.push_back(lease());
  std::vector<SlotLeases> nics;
  std::set<std::uint8_t> numbers;
  for (int i = 0; i < 3; ++i) {
    auto nic = acquire_slot(std::array{kOther, kLocal}, kBroker);
    ASSERT_TRUE(nic) << nic.error().sentence;
    ASSERT_EQ(nic->leases.size(), 2u);
    EXPECT_EQ(nic->leases[0]->slot(), nic->slot);
    EXPECT_EQ(nic->leases[1]->slot(), nic->slot);
    numbers.insert(nic->slot);
    nics.push_back(std::move(*nic));
  }
  EXPECT_EQ(numbers.size(), 3u);
}

TEST(FindBroker, IsBesideOurselves) { EXPECT_EQ(find_broker(), UROCE_BIN_DIR "/uroce-broker"); }

}  // namespace
}  // namespace uroce::engine
