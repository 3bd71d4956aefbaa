// SPDX-License-Identifier: Apache-2.0
// A process under control: from within, through the header that programs include, and by bytes that make no sense.
#include "verbs/include/uroce/control.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string_view>
#include <thread>

#include "engine/os/fd.h"
#include "engine/os/os_clock.h"
#include "tests/support/in_child.h"
#include "tests/unit/ibverbs/control_connection.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/control/commands.h"
#include "verbs/ibverbs/hooks/cm_faults.h"
#include "verbs/ibverbs/host/adapter.h"
#include "verbs/ibverbs/host/device.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv::test {
namespace {

[[maybe_unused]] const bool kBeforeTheFirstVerb = ::setenv("UROCE_CONTROL", "on", 1) == 0;

std::uint64_t counter(const char* name) {
  std::uint64_t value = 0;
  EXPECT_EQ(uroce_counter(0, name, &value), 0) << name;
  return value;
}
std::string told(const char* command) {
  std::string answer(UROCE_CONTROL_ANSWER, '\0');
  EXPECT_EQ(uroce_control(0, command, answer.data(), answer.size()), 0) << answer.c_str();
  return answer.c_str();
}
std::string refused(const char* command) {
  std::string answer(4096, '\0');
  EXPECT_EQ(uroce_control(0, command, answer.data(), answer.size()), EINVAL) << command;
  return answer.c_str();
}
constexpr ConnectOptions kImpatient = {.timeout = 10};  // 4 ms

/// A WRITE of one packet.
enum ibv_wc_status write_once(Pair& pair) {
  struct ibv_sge sge = pair.a.sge(0, 100);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
  wr.wr.rdma = {pair.b.address(), pair.b.mr->rkey};
  EXPECT_EQ(post(pair.qa.get(), wr), 0);
  return wait_completion(pair.a.send_cq).status;
}

TEST(Control, TheNextAckIsLost) {
  Pair pair(kImpatient);
  EXPECT_EQ(write_once(pair), IBV_WC_SUCCESS);
  EXPECT_EQ(uroce_lose(0, 2, "op:ack"), 0);
  EXPECT_EQ(write_once(pair), IBV_WC_SUCCESS);
  EXPECT_EQ(counter("injected_drop"), 2u);
  EXPECT_GE(counter("local_ack_timeout_err"), 2u) << "on a busy machine an ACK may also be late";
  EXPECT_EQ(write_once(pair), IBV_WC_SUCCESS);
  EXPECT_EQ(counter("injected_drop"), 2u) << "two were asked for";
  EXPECT_EQ(told("nic 1 counters injected_drop"), "uroce1 injected_drop 2\n");
}

TEST(Control, WhoHasTheNameOfTheSocketIsNamed) {
  const std::string said = uroce::test::in_child([]() -> std::string {
    sockaddr_un address{};
    socklen_t size = 0;
    const engine::Fd taken(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const bool is_taken = uroce_control_address(0, &address, &size) == 0 &&
                          ::bind(taken.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0;
    if (!is_taken || v().ibv_get_device_list(nullptr) != nullptr) return "no refusal";
    return last_error();
  });
  EXPECT_NE(said.find("user " + std::to_string(::geteuid())), std::string::npos) << said;
  EXPECT_NE(said.find("start it again"), std::string::npos) << said;
}

/// Exits with a NIC open while a command has it, which takes a little.
[[noreturn]] void exit_during_command(const std::string& folder) {
  static std::atomic<bool> is_begun = false;
  new Node(0);
  if (std::filesystem::is_empty(folder)) std::exit(1);
  std::thread([] {
    device_table().devices[0]->while_open([](Adapter&) {
      is_begun = true;
      is_begun.notify_one();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    });
  }).detach();
  is_begun.wait(false);
  std::exit(0);
}

/// Whether a process that exits so closes its NIC: a .ring stays behind otherwise.
bool closes_nic_when_it_exits() {
  std::string folder = testing::TempDir() + "recordXXXXXX";
  EXPECT_NE(::mkdtemp(folder.data()), nullptr);
  EXPECT_EQ(::setenv("UROCE_RECORD", folder.c_str(), 1), 0);
  const pid_t child = ::fork();
  if (child == 0) exit_during_command(folder);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const bool closed = std::filesystem::is_empty(folder);
  std::filesystem::remove_all(folder);
  return closed;
}

TEST(Control, WhoExitsDuringACommandClosesItsNic) {
  bool closed = false;
  // On a busy machine the command may not run for as long as it is waited for (kExitWait).
  for (int round = 0; round < 5 && !closed; ++round) closed = closes_nic_when_it_exits();
  EXPECT_TRUE(closed);
}

TEST(Control, OneOfTheNicsIsChanged) {
  Pair pair(kImpatient);
  EXPECT_EQ(told("nic 0 lose 1 rx op:ack"), "");
  EXPECT_EQ(write_once(pair), IBV_WC_SUCCESS);
  EXPECT_EQ(told("nic 0 counters injected_drop"), "uroce0 injected_drop 1\n");
  EXPECT_EQ(told("nic 1 counters injected_drop"), "uroce1 injected_drop 0\n");
  EXPECT_EQ(told("list").substr(0, 7), "uroce0 ");
}

TEST(Control, FaultsAreReplaced) {
  Pair pair({.timeout = 13, .retry_cnt = 1});  // 34 ms: on a busy machine the peer may be late.
  EXPECT_EQ(uroce_faults(0, "drop=op:write"), 0);
  EXPECT_EQ(uroce_faults(0, "none"), 0);
  EXPECT_EQ(write_once(pair), IBV_WC_SUCCESS);
  EXPECT_EQ(uroce_faults(0, "drop=op:write"), 0);
  EXPECT_EQ(write_once(pair), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(uroce_faults(0, "none"), 0);
}

TEST(Control, NothingPassesInABlackout) {
  Pair pair(kImpatient);
  const Instant limit = engine::os_now() + std::chrono::milliseconds(kPatienceMs);
  do {  // On a busy machine it may be over before anything is sent.
    EXPECT_EQ(uroce_blackout_ms(0, 20), 0);
    EXPECT_EQ(write_once(pair), IBV_WC_SUCCESS);
  } while (counter("injected_blackout") == 0 && engine::os_now() < limit);
  EXPECT_GE(counter("injected_blackout"), 1u);
  EXPECT_EQ(told("blackout 1h"), "") << "docs/control.md: without a fixed end";
  EXPECT_EQ(uroce_faults(0, "none"), 0);
  EXPECT_EQ(write_once(pair), IBV_WC_SUCCESS);
}

TEST(Control, FaultsOfCallsAndOfNicsThatAreOpenedLater) {
  { Node node(0); }  // A process that takes commands has asked for the devices.
  EXPECT_EQ(uroce_faults(0, "call=ibv_req_notify_cq#1:EBUSY,drop=op:write#1"), 0);
  {
    Pair pair(kImpatient);
    EXPECT_EQ(ibv_req_notify_cq(pair.a.send_cq, 0), EBUSY);
    EXPECT_EQ(ibv_req_notify_cq(pair.a.send_cq, 0), 0);
    EXPECT_EQ(write_once(pair), IBV_WC_SUCCESS);
    EXPECT_EQ(counter("injected_drop"), 1u);
  }
  EXPECT_EQ(counter("injected_call"), 1u);
  EXPECT_EQ(uroce_faults(0, "none"), 0);
}

TEST(Control, FaultsOfCallsAreAddedToThoseThatCountAlready) {
  { Node node(0); }  // No NIC needs to be open.
  EXPECT_EQ(uroce_faults(0, "none"), 0);
  EXPECT_EQ(execute_command("add call=ibv_req_notify_cq#2:EBUSY"), "ok\n");
  EXPECT_NE(refused("add call=ibv_req_notify_cq#1:EIO,loss=1%").find("no NIC open"), std::string::npos);
  const auto failed_before = counter("injected_call");
  {
    Pair pair(kImpatient);
    EXPECT_EQ(ibv_req_notify_cq(pair.a.send_cq, 0), 0);
    EXPECT_EQ(execute_command("add call=ibv_req_notify_cq#2:EAGAIN,cm.reject=no_qp"), "ok\n");
    EXPECT_EQ(ibv_req_notify_cq(pair.a.send_cq, 0), EBUSY);
    EXPECT_EQ(ibv_req_notify_cq(pair.a.send_cq, 0), EAGAIN) << "a call that fails for one counts for the other, too";
    EXPECT_EQ(ibv_req_notify_cq(pair.a.send_cq, 0), 0);
  }
  EXPECT_EQ(counter("injected_call"), failed_before + 2);
  EXPECT_NE(cm_faults().strike(engine::faults::CmFault::Kind::kReject), nullptr);
  EXPECT_EQ(uroce_faults(0, "none"), 0);
}

TEST(Control, AQpBreaksAsByAFatalError) {
  Node node(0);
  const QpPtr qp = node.make_qp();
  bring_to(qp.get(), IBV_QPS_RTS, node.gid(), qp->qp_num);
  EXPECT_EQ(uroce_break_qp(0, qp->qp_num), 0);
  EXPECT_EQ(state_of(qp.get()), IBV_QPS_ERR) << "when the answer is there, so is the effect";
  struct ibv_async_event event {};
  ASSERT_EQ(v().ibv_get_async_event(node.context.get(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(event.element.qp, qp.get());
  v().ibv_ack_async_event(&event);
  EXPECT_EQ(counter("injected_event"), 1u);
  EXPECT_NE(refused("break 0xabcdef").find("there is no QP"), std::string::npos);
}

TEST(Control, AProcessOfAnotherPidNamespaceIsNamedByItsNumberThere) {
  const std::string said = uroce::test::in_child([]() -> std::string {
    if (::unshare(CLONE_NEWPID) != 0) return "forbidden";
    const pid_t first = ::fork();
    if (first == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) ::pause();
    }
    sockaddr_un address{};
    socklen_t length = 0;
    const int error = uroce_control_address(first, &address, &length);
    ::kill(first, SIGKILL);
    return error != 0 ? std::strerror(error) : std::string(address.sun_path + 1);
  });
  if (said == "forbidden") GTEST_SKIP() << "only root may make PID namespaces here";
  EXPECT_EQ(said.substr(said.rfind('/')), "/1") << said;
}

TEST(Control, SignalsDoNotMakeTheWaitForAStoppedProcessLonger) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t process = ::fork();
  if (process == 0) {  // Like a stopped process it accepts nobody.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    sockaddr_un address{};
    socklen_t length = 0;
    const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    const bool listens = uroce_control_address(0, &address, &length) == 0 &&
                         ::bind(listener, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                         ::listen(listener, 1) == 0;
    const char byte = listens ? 1 : 0;
    [[maybe_unused]] const ssize_t n = ::write(ready[1], &byte, 1);
    while (true) ::pause();
  }
  char listens = 0;
  ASSERT_EQ(::read(ready[0], &listens, 1), 1);
  ASSERT_EQ(listens, 1);
  ::close(ready[0]);
  ::close(ready[1]);

  static volatile sig_atomic_t ticks_left = 2 * UROCE_CONTROL_SECONDS;
  struct sigaction action {};
  struct sigaction old_action {};
  action.sa_handler = [](int) {
    ticks_left = ticks_left - 1;
    if (ticks_left == 0) ::abort();  // Nothing else would end the wait.
  };
  ::sigaction(SIGALRM, &action, &old_action);
  const itimerval every_second = {{1, 0}, {1, 0}}, never = {};
  ::setitimer(ITIMER_REAL, &every_second, nullptr);
  EXPECT_EQ(uroce_control(process, "list", nullptr, 0), EAGAIN);
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &old_action, nullptr);
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
}

TEST(Control, WhatMakesNoSenseIsRefusedWithAReason) {
  const Node node(0);
  const std::pair<const char*, const char*> cases[] = {
      {"", "which command"},
      {"nonsense", "there is no command nonsense"},
      {"nic", "expected: nic N"},
      {"nic 64 list", "expected: nic N"},
      {"nic 1 counters", "NIC 1 is not open"},
      {"nic 1 list", "NIC 1 is not open"},
      {"nic 1 faults none", "NIC 1 is not open"},
      {"nic 0 faults call=ibv_alloc_pd#1:EIO", "of the process"},
      {"faults", "expected"},
      {"faults a b", "expected"},
      {"faults loss=1", "probability"},
      {"faults call=ibv_free_device_list#1:EIO", "can't fail"},
      {"nic 0 add call=ibv_alloc_pd#1:EIO", "of the process"},
      {"nic 0 add cm.reject=no_qp", "of the process"},
      {"add loss=1%,seed=4", "none can be added"},
      {"lose 0", "1 to"},
      {"lose 18446744073709551615", "1 to"},
      {"lose 99999999999999999999", "condition"},
      {"lose 1 op:ack#2", "expected"},
      {"lose 1 op:ack,dup=1%", "expected"},
      {"lose op:ack 1", "expected"},
      {"lose op:nonsense", "op:"},
      {"blackout", "expected"},
      {"blackout 0s", "expected"},
      {"blackout 5", "expected"},
      {"blackout 1e400s", "expected"},
      {"break", "expected"},
      {"break 0x1000000", "expected"},
      {"counters nonsense", "there is no counter nonsense"},
      {"list all", "expected"},
      {"faults\tnone", "printable"},
      {"faults none\nlist", "printable"},
  };
  for (const auto& [command, reason] : cases) {
    const std::string answer = execute_command(command);
    EXPECT_TRUE(answer.starts_with("error: ") && answer.ends_with('\n')) << command << ": " << answer;
    EXPECT_NE(answer.find(reason), std::string::npos) << command << ": " << answer;
  }
  EXPECT_NE(execute_command(std::string(5000, 'x')).find("4096 bytes"), std::string::npos);
  EXPECT_NE(refused(std::string(20'000, 'x').c_str()).find("4096 bytes"), std::string::npos) << "through the socket";
  EXPECT_EQ(execute_command("faults none\n"), "ok\n") << "from socat";
}

TEST(Control, AnyBytesAreACommand) {
  const Node node(0);
  std::mt19937 random(1);
  const char* const words[] = {
      "faults",   "add",           "lose",   "rx",    "nic",        "0", "1",  "blackout", "break", "1st",
      "counters", "drop=",         "#1..",   "op:",   "ack",        "@", ",",  "=",        "1%",    "0s",
      "..",       "9999999999999", "delay=", "seed=", "port=down@", "/", "\n", "\xff"};
  for (int i = 0; i < 20'000; ++i) {
    std::string command;
    for (auto n = random() % 12; n > 0; --n) {
      command += words[random() % std::size(words)];
      if (random() % 2 != 0) command += ' ';
    }
    const std::string answer = execute_command(command);
    ASSERT_TRUE(answer.starts_with("ok\n") || answer.starts_with("error: ")) << command;
    ASSERT_EQ(answer.back(), '\n');
  }
  EXPECT_EQ(uroce_faults(0, "none"), 0);
}

TEST(Control, WhoOnlyConnectsKeepsNobodyAway) {
  const Node node(0);
  std::vector<int> idle(40, -1);
  for (int& connection : idle) ASSERT_EQ(uroce_control_connect(0, &connection), 0);
  EXPECT_EQ(told("list").substr(0, 7), "uroce0 ");
  char byte = 0;
  EXPECT_LE(::recv(idle.front(), &byte, 1, 0), 0) << "the first of too many had to go";
  for (const int connection : idle) ::close(connection);
}

TEST(Control, AnAnswerMayBeCutShort) {
  const Node node(0);
  char answer[5];
  EXPECT_EQ(uroce_control(0, "list", answer, sizeof answer), EMSGSIZE);
  EXPECT_STREQ(answer, "uroc");
}

TEST(Control, NobodyAnswersForAnother) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  sockaddr_un address{};
  socklen_t length = 0;
  ASSERT_EQ(uroce_control_address(child, &address, &length), 0);
  const engine::Fd squatter(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(squatter.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(squatter.get(), 1), 0);
  EXPECT_EQ(uroce_control(child, "list", nullptr, 0), EADDRINUSE) << "also for root, who may ask anybody";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Control, ProcessesThatTakeNoCommandsSaySo) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_EQ(uroce_control(child, "list", nullptr, 0), ECONNREFUSED);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(uroce_control(child, "list", nullptr, 0), ENOENT);
}

uroce::Duration processor_time_of(pid_t process) {
  clockid_t clock;
  timespec used{};
  EXPECT_EQ(::clock_getcpuclockid(process, &clock), 0);
  EXPECT_EQ(::clock_gettime(clock, &used), 0);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// As some daemons do. Whoever asks the process then must not make a thread of ours run in circles.
TEST(Control, AProcessThatHasClosedAllDescriptorsRests) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto device = open_device(1);
    const auto last = static_cast<unsigned>(ready[1]);
    ::close_range(STDERR_FILENO + 1, last - 1, 0);
    ::close_range(last + 1, ~0U, 0);
    const char byte = 0;
    [[maybe_unused]] const ssize_t n = ::write(ready[1], &byte, 1);
    while (true) ::pause();
  }
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_NE(uroce_control(child, "list", nullptr, 0), 0);
  const uroce::Duration before = processor_time_of(child);
  ::poll(nullptr, 0, 300);
  EXPECT_LT(processor_time_of(child) - before, std::chrono::milliseconds(100));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const int fd : ready) ::close(fd);
}

// As a handler of the program's that forks to look for the reason of a crash inside a verb.
TEST(Control, AForkInsideACallDoesNotWaitForACommandThatWaitsForTheCall) {
  const Node node(0);
  const engine::Fd connection = connect_to_control();
  ASSERT_TRUE(connection);
  {
    const NicLock lock(*context_of(node.context.get()).adapter);
    constexpr std::string_view kCommand = "nic 0 counters sent_pkts";
    ASSERT_GT(::send(connection.get(), kCommand.data(), kCommand.size(), 0), 0);
    for (int unread = 1; unread > 0;) ASSERT_EQ(::ioctl(connection.get(), SIOCOUTQ, &unread), 0);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  char answer[256];
  EXPECT_GT(::recv(connection.get(), answer, sizeof answer, 0), 0);
}

TEST(Control, AChildOfForkIsAProcessOfItsOwn) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  const Node node(0);
  int ready[2];
  int leave[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(leave), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(leave[1]);
    const ContextPtr context = open_device(1);
    char byte = 0;
    [[maybe_unused]] ssize_t n = ::write(ready[1], &byte, 1);
    n = ::read(leave[0], &byte, 1);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  char answer[256];
  EXPECT_EQ(uroce_control(child, "list", answer, sizeof answer), 0);
  EXPECT_EQ(std::string(answer).substr(0, 7), "uroce1 ") << "its own, and not its parent's";
  EXPECT_EQ(told("list").substr(0, 7), "uroce0 ");
  for (const int fd : {ready[0], ready[1], leave[0], leave[1]}) ::close(fd);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace uroce::ibv::test
