// SPDX-License-Identifier: Apache-2.0
// Leases of slots of 127.0.0.1, from the real broker, which is a process of its own.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>

#include "engine/broker/lease.h"
#include "engine/broker/slots.h"
#include "tests/support/own_network.h"

namespace uroce::engine {

using namespace std::chrono_literals;

inline const proto::Gid kLocal = proto::Gid::from_v4(127, 0, 0, 1);
inline const proto::Gid kOther = proto::Gid::from_v4(127, 0, 0, 2);
inline const std::string kBroker = UROCE_BIN_DIR "/uroce-broker";
inline constexpr Duration kPatience = 20s;

/// Waits for what other processes do.
template <class Condition>
bool eventually(Condition condition) {
  const Instant deadline = os_now() + kPatience;
  while (!condition()) {
    if (os_now() > deadline) return false;
    Waiter().wait({}, os_now() + 1ms);
  }
  return true;
}

/// A connection to the broker of kLocal that has said nothing yet; none when there is no broker.
inline Fd visit() {
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractName name = broker_name(kLocal);
  if (::connect(fd.get(), name.get(), name.size) != 0) fd.reset();
  return fd;
}

/// The broker of kLocal; 0 when there is none.
inline pid_t broker() {
  const Fd fd = visit();
  if (!fd) return 0;
  ucred credentials{};
  socklen_t size = sizeof credentials;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size);
  return credentials.pid;
}

/// Gone, or a zombie that init has not fetched yet.
inline bool is_dead(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || text[name_end + 2] == 'Z' || text[name_end + 2] == 'X';
}

class LeaseTest : public testing::Test {
 protected:
  void SetUp() override { UROCE_NEEDS_OWN_NETWORK(); }
  /// Every test leaves nothing behind.
  void TearDown() override {
    EXPECT_TRUE(eventually([] { return open_receive_socket(kLocal).ok(); }));
    EXPECT_TRUE(eventually([] { return broker() == 0; }));
  }

  /// A slot, with its socket.
  struct Slot {
    std::unique_ptr<Lease> lease;
    ReceiveSocket socket;
    std::uint8_t number() const { return lease->slot(); }
  };
  static Slot lease(std::optional<std::uint8_t> wanted = std::nullopt, const std::string& executable = kBroker) {
    auto lease = Lease::acquire(kLocal, wanted, executable);
    EXPECT_TRUE(lease) << lease.error().sentence;
    Slot slot{.lease = std::move(*lease), .socket = {}};
    slot.socket = slot.lease->take_socket();
    return slot;
  }
  static SetupError refusal(std::optional<std::uint8_t> wanted = std::nullopt,
                            const std::string& executable = kBroker) {
    auto lease = Lease::acquire(kLocal, wanted, executable);
    return lease ? SetupError{} : lease.error();
  }
  static bool receives(const Slot& slot) {
    const auto sender = open_send_socket(kLocal, 0xC001);
    const std::array<std::uint8_t, 16> packet{0, 0, 0, 0, 0, slot.number()};
    const SocketAddress to(kLocal, proto::kRocePort);
    ::sendto(sender->get(), packet.data(), packet.size(), 0, to.get(), to.size);
    char byte = 0;
    return ::recv(slot.socket.fd.get(), &byte, 1, MSG_DONTWAIT) == 1;
  }
  /// Kills the broker and waits for the next one, which somebody starts.
  static void replace_broker() {
    const pid_t old = broker();
    ASSERT_GT(old, 0);
    ::kill(old, SIGKILL);
    EXPECT_TRUE(eventually([old] { return broker() != 0 && broker() != old; }));
  }
  /// A child process that holds slot `number` until it is killed.
  class Holder {
   public:
    Holder() {
      int ends[2];
      EXPECT_EQ(::pipe(ends), 0);
      process_ = ::fork();
      if (process_ == 0) {
        const Slot slot = lease();
        const std::uint8_t number = slot.number();
        [[maybe_unused]] const ssize_t n = ::write(ends[1], &number, 1);
        while (true) ::pause();
      }
      ::close(ends[1]);
      const Fd reader(ends[0]);
      EXPECT_EQ(::read(reader.get(), &slot_, 1), 1);
    }
    ~Holder() { kill(); }
    void kill() {
      if (process_ <= 0) return;
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
      process_ = 0;
    }
    void signal(int number) const { ::kill(process_, number); }
    std::uint8_t slot() const { return slot_; }

   private:
    pid_t process_ = 0;
    std::uint8_t slot_ = 0;
  };
};

}  // namespace uroce::engine
