// SPDX-License-Identifier: Apache-2.0
// Brokers of another version of uroce: after an upgrade, a program that runs starts one.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "engine/os/unix_message.h"
#include "tests/unit/broker/lease_fixture.h"
#include "tests/unit/proto/hex.h"

namespace uroce::engine {
namespace {

using testing::HasSubstr;

BrokerReply refusal_of_another_version() {
  BrokerReply reply;
  reply.protocol = kBrokerProtocol + 1;
  reply.error = EADDRINUSE;
  std::string_view("another version").copy(reply.sentence, sizeof reply.sentence - 1);
  return reply;
}

template <class T>
std::string hex(const T* bytes, std::size_t size) {
  return proto::test::to_hex(Bytes(reinterpret_cast<const std::uint8_t*>(bytes), size));
}

class OtherVersionTest : public LeaseTest {
 protected:
  void SetUp() override {
    LeaseTest::SetUp();
    std::filesystem::create_directory(folder_);
    std::filesystem::copy_file(kBroker, executable());
  }
  void TearDown() override {
    LeaseTest::TearDown();
    std::filesystem::remove_all(folder_);
  }
  std::string executable() const { return folder_ + "/uroce-broker"; }

  /// Puts an executable of another version in the place of the broker's: it refuses who asks first, and ends.
  void upgrade() {
    const AbstractName name = broker_name(kLocal);
    const BrokerReply reply = refusal_of_another_version();
    const std::string path = hex(name.address.sun_path, name.size - offsetof(sockaddr_un, sun_path));
    const std::string next = executable() + ".next";
    std::ofstream(next) << "#!/usr/bin/python3\nimport os, socket\n"
                        << "listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                        << "listener.bind(bytes.fromhex('" << path << "'))\nlistener.listen(8)\n"
                        << "open('" << starts() << "', 'a').write('x')\n"
                        << "os.write(" << kBrokerReport << ", b'" << kBrokerListens << "')\n"
                        << "connection, _ = listener.accept()\nconnection.recv(4096)\n"
                        << "connection.send(bytes.fromhex('" << hex(&reply, sizeof reply) << "'))\n"
                        << "listener.close()\n";
    ::chmod(next.c_str(), 0755);
    std::filesystem::rename(next, executable());
  }
  std::string starts() const { return folder_ + "/starts"; }
  std::uintmax_t started() const {
    std::error_code none;
    const std::uintmax_t size = std::filesystem::file_size(starts(), none);
    return none ? 0 : size;
  }

  const std::string folder_ = testing::TempDir() + "uroce-version-" + std::to_string(::getpid());
};

/// Refuses so many who ask, under the broker's name, and ends; as a broker whose last process has ended.
class Leaving {
 public:
  explicit Leaving(int refusals) : thread_([this, refusals] { run(refusals); }) {
    EXPECT_TRUE(eventually([] { return broker() != 0; }));
  }
  ~Leaving() {
    ends_ = true;
    visit();  // It waits for somebody.
    thread_.join();
  }

 private:
  void run(int refusals) {
    const Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const AbstractName name = broker_name(kLocal);
    EXPECT_EQ(::bind(listener.get(), name.get(), name.size), 0);
    EXPECT_EQ(::listen(listener.get(), 8), 0);
    while (refusals > 0 && !ends_) {
      const Fd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      BrokerRequest request;
      if (::recv(connection.get(), &request, sizeof request, 0) <= 0) continue;
      EXPECT_TRUE(send_message(connection.get(), refusal_of_another_version()));
      --refusals;
    }
  }
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

TEST_F(OtherVersionTest, OneThatWasStartedForUsIsNone) {
  upgrade();
  const SetupError error = refusal(std::nullopt, executable());
  EXPECT_EQ(error.error, EPROTONOSUPPORT);
  EXPECT_THAT(error.sentence, HasSubstr("of another version"));
  EXPECT_EQ(started(), 1u);
}

TEST_F(OtherVersionTest, OneThatIsAboutToEndIsFollowedByOurs) {
  const Leaving leaving(3);
  const Slot slot = lease();
  EXPECT_TRUE(receives(slot));
}

TEST_F(OtherVersionTest, OneThatStaysHasTheAddress) {
  const Leaving stays(1 << 20);
  const Instant start = os_now();
  const SetupError error = refusal();
  EXPECT_EQ(error.error, EADDRINUSE);
  EXPECT_EQ(error.sentence, "another version");
  EXPECT_LT(os_now() - start, 5s);
}

TEST_F(OtherVersionTest, OnesThatCanNotHelpAreNotStartedTimeAndAgain) {
  const Slot slot = lease(std::nullopt, executable());
  upgrade();
  const pid_t process = broker();
  ASSERT_GT(process, 0);
  ::kill(process, SIGKILL);
  EXPECT_TRUE(eventually([this] { return started() > 0; }));
  Waiter().wait({}, os_now() + 500ms);  // Time for some attempts.
  EXPECT_EQ(started(), 1u);
  EXPECT_TRUE(receives(slot));
}

}  // namespace
}  // namespace uroce::engine
