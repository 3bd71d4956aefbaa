// SPDX-License-Identifier: Apache-2.0
// What a process leaves behind that is killed while it sends.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <iterator>

#include "engine/port/udp_socket.h"
#include "proto/address.h"
#include "tests/support/executors.h"
#include "tests/support/own_network.h"
#include "tests/unit/rdmacm/two_devices.h"

namespace uroce::rdmacm {
namespace {

constexpr const char* kPeer = "127.0.0.33";

/// From now on the process is killed when one of its threads sends a packet, which is not sent.
void die_when_sending() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmmsg, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(filter), .filter = filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    ::_exit(2);
  }
}

/// Alone in its process, as by ctest: what others have opened has the addresses that the child needs.
TEST(LastWords, LieReadyBeforeTheRequestIsSent) {
  UROCE_NEEDS_OWN_NETWORK();
  const auto peer = engine::open_receive_socket(*proto::parse_gid(kPeer));
  ASSERT_TRUE(peer.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("UROCE_ENGINE", "socket", 1);
    Device client;
    const std::uint32_t id = client.made();
    if (client.resolve(id, kSecond, kPeer) != 0 || client.next().event != kResolved || client.route(id) != 0 ||
        client.next().event != kRouted) {
      ::_exit(1);
    }
    die_when_sending();
    client.connect(id);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "exit status " << WEXITSTATUS(status);
  ASSERT_EQ(WTERMSIG(status), SIGSYS);
  pollfd polled{.fd = peer->fd.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&polled, 1, 5000), 1) << "nobody says that the process is gone";
}

class Executors : public TwoDevices {};

void await_executors(std::size_t count) {
  while (test::executors().size() != count) ::sched_yield();
}

TEST_F(Executors, OfAServerThatOnlyAcceptsAreReplaced) {
  listening();
  await_executors(1);
  ::kill(*test::executors().begin(), SIGKILL);
  await_executors(0);
  connected();
  await_executors(2);  // The client's NIC has its own.
}

}  // namespace
}  // namespace uroce::rdmacm
