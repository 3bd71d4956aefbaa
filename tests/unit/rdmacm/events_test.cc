// SPDX-License-Identifier: Apache-2.0
// Connections between two NICs of this process: their events, and how many each id has had.
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/os/fd.h"
#include "engine/os/os_clock.h"
#include "proto/address.h"
#include "tests/support/old_kernel.h"
#include "tests/unit/rdmacm/two_devices.h"
#include "verbs/ibverbs/host/adapter.h"
#include "verbs/rdmacm/front.h"
#include "verbs/rdmacm/route.h"

namespace uroce::rdmacm {
namespace {

class EventsTest : public TwoDevices {};

// As where it prefers the temporary IPv6 address of the day, or the first one of the interface.
TEST_F(EventsTest, TheHostMayPreferASourceThatNoNicHas) {
  if (std::system("ip addr add 198.51.100.9/32 dev lo && ip route add 203.0.113.0/24 dev lo src 198.51.100.9") != 0)
    GTEST_SKIP() << "there is no ip(8) that can add an address";
  const std::uint32_t id = client_.made();
  EXPECT_EQ(client_.resolve(id, "", "203.0.113.1", kPort), 0);
  EXPECT_EQ(client_.next().event, kResolved);
  rdma_ucm_query_route_resp route{};
  ASSERT_EQ(client_.query(id, route), 0);
  EXPECT_EQ(reinterpret_cast<const sockaddr_in&>(route.src_addr).sin_addr.s_addr, inet_addr(kFirst));
}

// The peer's NIC would refuse more than its interface has.
TEST_F(EventsTest, WithinAHostThePathMtuIsThatOfTheSmallerInterface) {
  if (std::system("ip link add small0 mtu 1500 type veth peer name small1 && ip link set small0 up && "
                  "ip addr add 192.0.2.9/24 dev small0") != 0)
    GTEST_SKIP() << "there is no ip(8) that can make a link";
  const std::uint32_t id = client_.made();
  EXPECT_EQ(client_.resolve(id, kFirst, "192.0.2.9", kPort), 0);
  EXPECT_EQ(client_.next().event, kResolved);
  EXPECT_EQ(client_.route(id), 0);
  EXPECT_EQ(client_.next().event, kRouted);
  rdma_ucm_query_route_resp route{};
  ASSERT_EQ(client_.query(id, route), 0);
  EXPECT_EQ(route.ib_route[0].mtu, IBV_MTU_1024);
}

TEST_F(EventsTest, AConnectionFromTheFirstToTheLast) {
  const std::uint32_t listener = listening();
  const std::uint32_t active = connecting();

  const auto request = server_.next();
  EXPECT_EQ(request.event, kRequest);
  EXPECT_EQ(request.uid, 10u) << "the listener's";
  EXPECT_NE(request.id, listener);
  EXPECT_EQ(request.param.conn.private_data_len, 56);
  EXPECT_EQ(request.param.conn.private_data[4], 'c');
  EXPECT_EQ(request.param.conn.private_data[5], 0);
  EXPECT_EQ(request.param.conn.qp_num, 0x100 + active);
  EXPECT_EQ(request.param.conn.responder_resources, 2) << "swapped";
  EXPECT_EQ(request.param.conn.initiator_depth, 3);
  EXPECT_EQ(request.param.conn.retry_count, 6);
  EXPECT_EQ(request.param.conn.rnr_retry_count, 5);

  rdma_ucm_query_route_resp route{};
  ASSERT_EQ(server_.query(request.id, route), 0);
  EXPECT_EQ(route.num_paths, 1u);
  EXPECT_EQ(ntohs(route.src_addr.sin6_port), kPort);
  EXPECT_EQ(route.ib_route[0].dgid[15], 32);

  ib_uverbs_qp_attr passive{}, mine{};
  ASSERT_EQ(server_.attributes(request.id, 2, passive), 0) << "before the answer";
  EXPECT_EQ(passive.qp_attr_mask, 0x129181u);
  ASSERT_EQ(server_.accept(request.id, 11, 7), 0);

  const auto response = client_.next();
  EXPECT_EQ(response.event, kResponse);
  EXPECT_EQ(response.uid, 20u);
  EXPECT_EQ(response.param.conn.private_data_len, 196);
  EXPECT_EQ(response.param.conn.private_data[6], 'a');
  EXPECT_EQ(response.param.conn.qp_num, 0x200 + request.id);

  // Crossed: each begins with the PSN that the other one expects.
  ASSERT_EQ(client_.attributes(active, 2, mine), 0);
  const std::uint32_t expected_by_client = mine.rq_psn;
  EXPECT_EQ(mine.dest_qp_num, 0x200 + request.id);
  EXPECT_EQ(mine.ah_attr.grh.dgid[15], 31);
  EXPECT_EQ(mine.ah_attr.grh.flow_label, passive.ah_attr.grh.flow_label);
  ASSERT_EQ(server_.attributes(request.id, 3, passive), 0);
  EXPECT_EQ(passive.qp_attr_mask, 0x12E01u);
  EXPECT_EQ(passive.sq_psn, expected_by_client);
  EXPECT_EQ(passive.timeout, 17);
  EXPECT_EQ(passive.retry_cnt, 6);
  EXPECT_EQ(passive.rnr_retry, 5) << "the peer's";

  ASSERT_EQ(client_.accept(active, 0, 0, false), 0);
  const auto established = server_.next();
  EXPECT_EQ(established.event, kEstablished);
  EXPECT_EQ(established.uid, 11u);
  EXPECT_EQ(established.id, request.id);

  ASSERT_EQ(client_.disconnect(active), 0);
  EXPECT_EQ(server_.next().event, kDisconnected);
  EXPECT_FALSE(client_.is_readable(20)) << "nobody answers but the program";
  ASSERT_EQ(server_.disconnect(request.id), 0);
  EXPECT_EQ(client_.next().event, kDisconnected);
  EXPECT_EQ(client_.next().event, kTimewaitExit);
  EXPECT_EQ(server_.next().event, kTimewaitExit);

  std::uint32_t reported = 0;
  EXPECT_EQ(client_.destroy(active, &reported), 0);
  EXPECT_EQ(reported, 5u);
  EXPECT_EQ(server_.destroy(request.id, &reported), 0);
  EXPECT_EQ(reported, 3u) << "the request is the listener's";
  EXPECT_EQ(server_.destroy(listener, &reported), 0);
  EXPECT_EQ(reported, 1u);
}

TEST_F(EventsTest, ARejectCarriesTheProgramsData) {
  listening();
  connecting();
  const auto request = server_.next();
  ASSERT_EQ(server_.reject(request.id, 0, 149), EINVAL);
  ASSERT_EQ(server_.reject(request.id, 0, 148), 0);
  const auto rejected = client_.next();
  EXPECT_EQ(rejected.event, kRejected);
  EXPECT_EQ(rejected.status, 28u);
  EXPECT_EQ(rejected.param.conn.private_data[147], 'r');
}

TEST_F(EventsTest, AnAcceptThatFailsRejects) {
  listening();
  connecting();
  EXPECT_EQ(server_.accept(server_.next().id, 11, 197), EINVAL);
  EXPECT_EQ(client_.next().status, 28u);
}

TEST_F(EventsTest, DatagramsAskForTheirPeersNumber) {
  listening(RDMA_PS_UDP);
  connecting(RDMA_PS_UDP);
  const auto request = server_.next();
  EXPECT_EQ(request.event, kRequest);
  EXPECT_EQ(request.param.ud.private_data_len, 180);
  EXPECT_EQ(request.param.ud.qp_num, 0u);
  ASSERT_EQ(server_.accept(request.id, 11, 3), 0);
  const auto established = client_.next();
  EXPECT_EQ(established.event, kEstablished);
  EXPECT_EQ(established.param.ud.qp_num, 0x200 + request.id);
  EXPECT_EQ(established.param.ud.qkey, 0x01234567u);
  EXPECT_EQ(established.param.ud.private_data_len, 136);
  EXPECT_EQ(established.param.ud.ah_attr.grh.dgid[15], 31);
  EXPECT_EQ(established.param.ud.ah_attr.grh.sgid_index, 1);
  EXPECT_EQ(server_.disconnect(request.id), 0) << "says nothing, and nothing comes of it";
  EXPECT_FALSE(client_.is_readable(20));
}

TEST_F(EventsTest, NobodyServesADatagram) {
  listening(RDMA_PS_TCP);  // Another service, so that the NIC is open.
  connecting(RDMA_PS_UDP);
  const auto refused = client_.next();
  EXPECT_EQ(refused.event, kUnreachable);
  EXPECT_EQ(refused.status, 1u);
}

TEST_F(EventsTest, AWildcardListensOnEveryNic) {
  const std::uint32_t listener = listening(RDMA_PS_TCP, "0.0.0.0");
  for (const char* address : {kFirst, kSecond}) {
    connecting(RDMA_PS_TCP, address);
    const auto request = server_.next();
    rdma_ucm_query_route_resp route{};
    ASSERT_EQ(server_.query(request.id, route), 0);
    EXPECT_NE(route.node_guid, 0u);
    EXPECT_EQ(route.ib_route[0].sgid[15], address == kFirst ? 31 : 32);
  }
  std::uint32_t reported = 0;
  EXPECT_EQ(server_.destroy(listener, &reported), 0);
  EXPECT_EQ(reported, 2u);
}

// As with sockets, and in the kernel.
TEST_F(EventsTest, NowhereInParticularIsTheNicItself) {
  listening(RDMA_PS_TCP, kSecond);
  connecting(RDMA_PS_TCP, "0.0.0.0");
  EXPECT_EQ(server_.next().event, kRequest);
}

TEST_F(EventsTest, AListenerThatIsDestroyedRejectsWhatNobodyHasSeen) {
  const std::uint32_t listener = listening();
  connecting();
  ASSERT_TRUE(server_.is_readable(5000));
  std::uint32_t reported = 77;
  EXPECT_EQ(server_.destroy(listener, &reported), 0);
  EXPECT_EQ(reported, 0u);
  EXPECT_FALSE(server_.is_readable()) << "its byte is gone as well";
  const auto rejected = client_.next();
  EXPECT_EQ(rejected.event, kRejected);
  EXPECT_EQ(rejected.status, 28u);
}

TEST_F(EventsTest, ARequestThatEndsBeforeItsListenerTakesItsEventAlong) {
  const std::uint32_t low = server_.made();
  listening();
  ASSERT_EQ(server_.destroy(low), 0);  // The request gets its number, and so ends first with the channel.
  connecting();
  ASSERT_TRUE(server_.is_readable(5000));
  server_.close();
  EXPECT_EQ(client_.next().event, kRejected);
}

TEST_F(EventsTest, ARequestThatNobodyHasSeenCanBeDestroyed) {
  const std::uint32_t listener = listening();
  connecting();
  ASSERT_TRUE(server_.is_readable(5000));
  EXPECT_EQ(server_.destroy(listener + 2), 0);
  EXPECT_FALSE(server_.is_readable());
  EXPECT_EQ(client_.next().event, kRejected);
  EXPECT_EQ(server_.destroy(listener), 0);
}

/// Between a NIC and the front: whatever waits is let in before the thread that has locked the NIC goes on.
struct LetsInAtOnce final : ibv::CmSink {
  explicit LetsInAtOnce(std::shared_ptr<ibv::Adapter> nic) : adapter(std::move(nic)) { adapter->set_cm_sink(this); }
  ~LetsInAtOnce() override { adapter->set_cm_sink(&Front::get()); }
  void on_cm_events(ibv::Adapter& from, cm::Cm& cm) override {
    cm.on_timeout(engine::os_now());
    Front::get().on_cm_events(from, cm);
  }
  void on_removal(ibv::Adapter& from) override { Front::get().on_removal(from); }
  std::shared_ptr<ibv::Adapter> adapter;
};

TEST_F(EventsTest, AListenThatFailsLeavesNoRequestBehind) {
  // For a second after this, requests for the port wait for another listener.
  ASSERT_EQ(server_.destroy(listening(RDMA_PS_TCP, "0.0.0.0")), 0);
  const auto first = Front::get().nics().with_address(*proto::parse_gid(kFirst));
  const auto second = Front::get().nics().with_address(*proto::parse_gid(kSecond));
  ASSERT_TRUE(first.ok() && second.ok());
  const auto received = [&] { return ibv::NicLock(*first->adapter).cm().counters().received; };
  const std::uint64_t before = received();
  connecting();
  while (received() == before) std::this_thread::yield();

  const std::uint32_t listener = server_.made();
  const std::uint32_t next_number = server_.made();
  ASSERT_EQ(server_.destroy(next_number), 0);
  ASSERT_EQ(server_.bind(listener, "0.0.0.0", kPort), 0);
  const auto in_the_way =
      ibv::NicLock(*second->adapter).cm().listen({.service_id = service_id(RDMA_PS_TCP, kPort), .takes_v4 = true});
  ASSERT_TRUE(in_the_way.ok());
  {
    const LetsInAtOnce sink(first->adapter);
    EXPECT_EQ(server_.listen(listener), EADDRINUSE);
  }
  EXPECT_FALSE(server_.is_readable());
  EXPECT_EQ(server_.made(), next_number) << "the request's id is gone";
  const auto rejected = client_.next();
  EXPECT_EQ(rejected.event, kRejected);
  EXPECT_EQ(rejected.status, 28u) << "by the listener; without one it is 8";
  ibv::NicLock(*second->adapter).cm().unlisten(*in_the_way, engine::os_now());
  EXPECT_EQ(server_.listen(listener), 0) << "it is free to try again";
}

TEST_F(EventsTest, ARequestThatIsBeingFetchedOutlivesItsListener) {
  const auto nic = Front::get().nics().with_address(*proto::parse_gid(kFirst));
  ASSERT_TRUE(nic.ok());
  const std::uint32_t other = server_.made();
  for (int round = 0; round < 50; ++round) {
    const std::uint32_t listener = listening();
    const std::uint32_t active = connecting();
    ASSERT_TRUE(server_.is_readable(5000));
    auto busy = std::make_unique<ibv::NicLock>(*nic->adapter);
    rdma_ucm_event_resp fetched{};
    std::thread fetching([&] { EXPECT_EQ(server_.event(fetched), 0); });
    while (server_.is_readable()) std::this_thread::yield();
    std::thread destroying([&] { EXPECT_EQ(server_.destroy(listener), 0); });
    busy.reset();
    destroying.join();
    ASSERT_EQ(server_.raise(other), 0);
    fetching.join();
    if (fetched.event == kRequest) {
      ASSERT_EQ(server_.accept(fetched.id, 11), 0) << "in round " << round;
      EXPECT_EQ(server_.next().event, kUser);
      EXPECT_EQ(server_.destroy(fetched.id), 0);
    }
    EXPECT_EQ(client_.destroy(active), 0);
  }
}

TEST_F(EventsTest, WhatItHasAcceptedLivesOn) {
  const std::uint32_t listener = listening();
  const auto [active, passive] = connected();
  EXPECT_EQ(server_.destroy(listener), 0);
  EXPECT_EQ(client_.disconnect(active), 0);
  const auto disconnected = server_.next();
  EXPECT_EQ(disconnected.event, kDisconnected);
  EXPECT_EQ(disconnected.id, passive);
}

TEST_F(EventsTest, TheLastCopyOfAChannelEndsWhatIsOnIt) {
  listening();
  const auto [active, passive] = connected();
  const int copy = ::dup(client_.fd());
  client_.close();
  EXPECT_FALSE(server_.is_readable(20)) << "there is a copy";
  ::close(copy);
  const Device any;  // The next open or close sees it.
  const auto disconnected = server_.next();
  EXPECT_EQ(disconnected.event, kDisconnected);
  EXPECT_EQ(disconnected.id, passive);
  static_cast<void>(active);
}

bool sleeps(pid_t thread) {
  std::string number, name, state;
  std::ifstream("/proc/self/task/" + std::to_string(thread) + "/stat") >> number >> name >> state;
  return state == "S";
}

TEST_F(EventsTest, AChannelThatIsClosedWhileAThreadWaitsEndsWithTheWait) {
  listening();
  const auto [active, passive] = connected();
  const ino_t pipe = pipe_behind(client_.fd()).value();
  std::atomic<pid_t> waiter = 0;
  std::thread waiting([&] {
    waiter = ::gettid();
    rdma_ucm_event_resp event{};
    EXPECT_EQ(client_.event(event), 0);
    EXPECT_EQ(event.event, kDisconnected);
  });
  while (!sleeps(waiter)) std::this_thread::yield();
  client_.close();
  EXPECT_NE(Front::get().channel_with(pipe), nullptr) << "the thread has it open";
  ASSERT_EQ(server_.disconnect(passive), 0);
  waiting.join();
  EXPECT_EQ(Front::get().channel_with(pipe), nullptr);
  static_cast<void>(active);
}

/// While it lives, this thread and those that it starts have one processor.
class OneProcessor {
 public:
  OneProcessor() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~OneProcessor() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_{};
};

// On one processor it is mostly cancelled after an event has come, and before it goes on.
TEST_F(EventsTest, AThreadThatIsCancelledTakesNoEventAlong) {
  const OneProcessor one;
  const std::uint32_t id = client_.made();
  for (int i = 0; i < 100; ++i) {
    std::atomic<pid_t> waiter = 0;
    std::atomic<bool> has_event = false;
    std::thread waiting([&] {
      const sched_param none{};
      ::sched_setscheduler(0, SCHED_BATCH, &none);  // It does not run as soon as it is woken.
      waiter = ::gettid();
      rdma_ucm_event_resp event{};
      static_cast<void>(client_.event(event));
      has_event = true;
    });
    while (!sleeps(waiter)) std::this_thread::yield();
    ASSERT_EQ(client_.raise(id), 0);
    ::pthread_cancel(waiting.native_handle());
    waiting.join();
    if (has_event) continue;
    ASSERT_TRUE(client_.is_readable()) << "round " << i;
    EXPECT_EQ(client_.next().event, kUser);
  }
  EXPECT_FALSE(client_.is_readable());
}

/// What a thread is told that is about to wait for an event, when its channel is closed. Signals come all the time.
int told_when_closed(Device& device) {
  struct sigaction nothing = {};
  struct sigaction before = {};
  nothing.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &nothing, &before);
  std::atomic<int> error = -1;
  std::thread waiting([&] {
    ::close(device.fd());  // write() has found the channel already.
    rdma_ucm_event_resp event{};
    error = device.event(event);
  });
  while (error < 0) {
    ::pthread_kill(waiting.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  waiting.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  device.forget();
  return error;
}

/// As rping's main thread does behind the last event, while the other one begins to wait for the next.
TEST_F(EventsTest, AChannelThatIsClosedBeforeAThreadWaitsLetsItSleep) {
  EXPECT_EQ(told_when_closed(client_), EINTR) << "until a signal comes";
}

TEST_F(EventsTest, AChannelThatDoesNotBlockLetsNobodySleep) {
  Device opened_so(O_NONBLOCK);
  EXPECT_EQ(told_when_closed(opened_so), EAGAIN);
  ::fcntl(client_.fd(), F_SETFL, O_NONBLOCK);
  rdma_ucm_event_resp event{};
  EXPECT_EQ(client_.event(event), EAGAIN);
  EXPECT_EQ(told_when_closed(client_), EAGAIN);
}

/// The front's end of the pipe whose other end the program has.
int write_end_of(int read_end) {
  for (int fd = 3; fd < 1024; ++fd) {
    if (fd != read_end && pipe_behind(fd) == pipe_behind(read_end)) return fd;
  }
  return -1;
}

TEST_F(EventsTest, NobodyWritesToAFileThatHasTheNumberOfAChannel) {
  listening();
  const auto [active, passive] = connected();
  const ino_t pipe = pipe_behind(client_.fd()).value();
  const int end = write_end_of(client_.fd());
  ASSERT_GE(end, 0);
  const engine::Fd file(::memfd_create("the program's", MFD_CLOEXEC));
  ::close(client_.fd());  // As close_range() does, with all others.
  ASSERT_EQ(::dup2(file.get(), end), end);
  ASSERT_EQ(server_.disconnect(passive), 0);
  const auto events = [&] {
    const auto channel = Front::get().channel_with(pipe);
    const std::scoped_lock lock(Front::get().event_mutex());
    return channel->size();
  };
  while (events() == 0) std::this_thread::yield();
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_END), 0);
  Front::get().release_closed();
  EXPECT_EQ(server_.next().event, kDisconnected);
  EXPECT_EQ(Front::get().channel_with(pipe), nullptr);
  EXPECT_EQ(::close(end), 0) << "it is not ours to close";
  client_.forget();
  static_cast<void>(active);
}

TEST_F(EventsTest, AClosedChannelDisconnects) {
  listening();
  const auto [active, passive] = connected();
  client_.close();
  const auto disconnected = server_.next();
  EXPECT_EQ(disconnected.event, kDisconnected);
  EXPECT_EQ(disconnected.id, passive);
  static_cast<void>(active);
}

// A program may end with _exit right after it, and a thread that polls no more sends nothing.
TEST_F(EventsTest, ADisconnectIsSentBeforeTheCommandReturnsEvenIfTheProgramPolls) {
  listening();
  const auto [active, passive] = connected();
  const auto nic = Front::get().nics().with_address(*proto::parse_gid(kSecond));
  ASSERT_TRUE(nic.ok());
  ibv::Adapter& adapter = *nic->adapter;
  const auto sent = [&adapter] { return ibv::NicLock(adapter).port().counters().sent_packets; };
  for (int i = 0; i < 1000; ++i) ibv::NicLock(adapter).poll();
  const std::uint64_t before = sent();
  ASSERT_EQ(client_.disconnect(active), 0);
  EXPECT_EQ(sent(), before + 1);
  EXPECT_EQ(server_.next().event, kDisconnected);
  static_cast<void>(passive);
}

TEST_F(EventsTest, EventsMoveWithTheirIdAndKeepTheirOrder) {
  listening();
  const auto [active, passive] = connected();
  EXPECT_EQ(client_.disconnect(active), 0);
  ASSERT_TRUE(server_.is_readable(5000));
  Device other;
  std::uint32_t reported = 0;
  ASSERT_EQ(other.migrate(passive, server_.fd(), &reported), 0);
  EXPECT_EQ(reported, 1u) << "ESTABLISHED";
  EXPECT_FALSE(server_.is_readable());
  EXPECT_EQ(other.next().event, kDisconnected);
}

// librdmacm moves each request that a synchronous listener accepts (raccept(), rdma_get_request()).
TEST_F(EventsTest, AnIdMovesWhileOthersUseTheQueues) {
  std::uint32_t id = 0;
  ASSERT_EQ(server_.create(id), 0);
  Device other;
  std::unique_lock lock(Front::get().event_mutex());
  auto moved = std::async(std::launch::async, [&] { return other.migrate(id, server_.fd()); });
  EXPECT_EQ(moved.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout) << "it waits for the lock";
  lock.unlock();
  EXPECT_EQ(moved.get(), 0);
  EXPECT_EQ(server_.migrate(id, other.fd()), 0);
}

TEST_F(EventsTest, ARequestThatHasMovedOutlivesTheChannelOfItsListener) {
  const std::uint32_t listener = listening();
  connecting();
  ASSERT_TRUE(server_.is_readable(5000));
  Device other;
  ASSERT_EQ(other.migrate(listener, server_.fd()), 0);
  server_.close();
  const auto request = other.next();
  EXPECT_EQ(request.event, kRequest);
  EXPECT_EQ(other.reject(request.id), 0);
}

// A blocking rdma_get_cm_event() behind a poll() would wait for ever.
TEST_F(EventsTest, AnOldKernelTakesTheByteOfADroppedEventToo) {
  const std::uint32_t id = client_.made(RDMA_PS_TCP, 20);
  ASSERT_EQ(client_.resolve(id, kSecond, kFirst, kPort), 0);
  ASSERT_TRUE(client_.is_readable());
  const bool has_run = test::without_nowait_reads([&] { EXPECT_EQ(client_.destroy(id), 0); });
  if (!has_run) GTEST_SKIP() << "threads can't filter their system calls here";
  EXPECT_FALSE(client_.is_readable());
}

// As a signal handler does that interrupted a thread in there: what is open stays so, and the process ends.
TEST_F(EventsTest, AnExitWithTheEventMutexTakenDoesNotWaitForIt) {
  {
    const std::scoped_lock lock(Front::get().event_mutex());
    Front::get().release_all();
  }
  EXPECT_NE(Front::get().channel_with(pipe_behind(client_.fd()).value()), nullptr);
}

TEST_F(EventsTest, AChildThatNobodyHasAnnouncedEndsNoConnection) {
  listening();
  connected();
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));  // No handler of fork() runs.
  if (child == 0) {
    Front::get().release_all();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(server_.is_readable(50));
}

// As the kernel closes descriptors: behind all of the program, also what it registered before its first channel.
TEST(ExitDeathTest, HandlersOfTheProgramFindTheirChannelsOpen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // In a process that has had no channel yet.
  const auto exit_with_channel = [] {
    static int fd = -1;
    std::atexit([] { ::_exit(Front::get().channel_with(pipe_behind(fd).value()) == nullptr ? 1 : 0); });
    fd = Front::get().open_channel(0);
    std::exit(2);
  };
  EXPECT_EXIT(exit_with_channel(), testing::ExitedWithCode(0), "");
}

// As a signal handler that interrupts a thread in there does, when it writes to a pipe of its own.
TEST_F(EventsTest, PipesThatAreNoChannelsNeedNoLock) {
  const int channel = client_.fd();
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const std::scoped_lock lock(Front::get().event_mutex());
  EXPECT_EQ(Front::get().channel_with(*pipe_behind(pipe[0])), nullptr);
  EXPECT_NE(pipe_behind(channel), pipe_behind(pipe[0]));
  for (const int end : pipe) ::close(end);
}

// WRITE_CM_EVENT (Linux 6.17): rdma_write_cm_event(), and what rdma_resolve_addrinfo() tells its own channel.
TEST_F(EventsTest, AProgramWritesEventsItself) {
  constexpr std::uint32_t kWriteCmEvent = 24, kInternal = 19;
  struct {
    std::uint32_t id, reserved, event, status;
    std::uint64_t argument;
  } body{client_.made(RDMA_PS_TCP, 4711), 0, kUser, 7, 0x1122334455667788};
  EXPECT_EQ(client_.command(kWriteCmEvent, body), 0);
  body.event = kInternal;
  EXPECT_EQ(client_.command(kWriteCmEvent, body), 0);
  for (const std::uint32_t event : {std::uint32_t{kUser}, kInternal}) {
    const rdma_ucm_event_resp got = client_.next();
    EXPECT_EQ(got.event, event);
    EXPECT_EQ(got.uid, 4711u);
    EXPECT_EQ(got.status, 7u);
    EXPECT_EQ(std::memcmp(&got.param, &body.argument, sizeof body.argument), 0);
  }
  body.event = kEstablished;
  EXPECT_EQ(client_.command(kWriteCmEvent, body), EINVAL);
  body.event = kUser;
  body.id = 9999;
  EXPECT_EQ(client_.command(kWriteCmEvent, body), ENOENT);
}

TEST_F(EventsTest, AThreadThatWaitsGetsTheEvent) {
  const std::uint32_t id = client_.made(RDMA_PS_TCP, 20);
  rdma_ucm_event_resp event{};
  std::thread waiting([&] { EXPECT_EQ(client_.event(event), 0); });
  EXPECT_EQ(client_.resolve(id, kSecond, kFirst, kPort), 0);
  waiting.join();
  EXPECT_EQ(event.event, kResolved);
}

// It is among those that the kernel gives to whoever asks for any.
TEST_F(EventsTest, TheUsualSourcePortOfMessagesMayBeTaken) {
  std::vector<engine::Fd> others;
  for (const char* const address : {kFirst, kSecond}) {
    const int other = others.emplace_back(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)).get();
    sockaddr_in taken{};
    taken.sin_family = AF_INET;
    taken.sin_port = htons(cm::kUsualSourcePort);
    ASSERT_EQ(::inet_pton(AF_INET, address, &taken.sin_addr), 1);
    if (::bind(other, reinterpret_cast<const sockaddr*>(&taken), sizeof taken) != 0)
      GTEST_SKIP() << "a test before this one has had it: run it alone";
  }
  listening();
  connected();
}

}  // namespace
}  // namespace uroce::rdmacm
