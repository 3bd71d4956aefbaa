// SPDX-License-Identifier: Apache-2.0
// The TCP connection's framing against what a network, a broken peer or an attacker may send.
#include "tools/control/control.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/control/interrupt.h"

namespace uroce::tools {
namespace {

class ControlTest : public ::testing::Test {
 protected:
  ControlTest() {
    install_interrupt_handlers();
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    control.emplace(Connection{Socket(fds[0]), "here"}, "the peer");
    peer = Socket(fds[1]);
  }

  void feed(Bytes bytes) {
    ASSERT_EQ(::send(peer.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  static std::vector<std::uint8_t> frame(const Header& header, Bytes payload) {
    std::vector<std::uint8_t> bytes(kHeaderBytes);
    encode_header(header, bytes.data());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
  }
  static std::vector<std::uint8_t> frame(MessageType type, Bytes payload) {
    Header header;
    header.type = static_cast<std::uint16_t>(type);
    header.length = static_cast<std::uint32_t>(payload.size());
    return frame(header, payload);
  }
  /// The sentence with which poll() fails, or "".
  std::string poll_failure() {
    try {
      while (control->poll()) {
      }
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  }

  std::optional<Control> control;
  Socket peer;
};

TEST_F(ControlTest, AMessageMayArriveByteByByte) {
  const auto payload = encode(Progress{3, 99});
  const auto bytes = frame(MessageType::kCompleted, payload);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(control->poll());
    feed(Bytes(bytes).subspan(i, 1));
  }
  const auto message = control->poll();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->type, MessageType::kCompleted);
  EXPECT_EQ(message->payload, payload);
  EXPECT_FALSE(control->poll());
}

TEST_F(ControlTest, ManyMessagesMayArriveAtOnce) {
  std::vector<std::uint8_t> bytes;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    const auto one = frame(MessageType::kVerified, encode(Progress{i, i}));
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  feed(bytes);
  for (std::uint32_t i = 0; i < 5000; ++i) {
    const auto message = control->poll();
    ASSERT_TRUE(message) << i;
    EXPECT_EQ(decode_progress(message->payload)->qp, i);
  }
}

TEST_F(ControlTest, WhatTheKernelDoesNotTakeGoesOutLater) {
  const std::vector<std::uint8_t> payload(20000, 0xAB);
  constexpr std::size_t kMessages = 200;  // far more than a socket buffer
  for (std::size_t i = 0; i < kMessages; ++i) control->send(MessageType::kMetadata, payload);
  std::size_t received = 0;
  std::vector<std::uint8_t> chunk(65536);
  while (received < kMessages * (payload.size() + kHeaderBytes)) {
    const ssize_t n = recv(peer.fd(), chunk.data(), chunk.size(), 0);
    if (n > 0) {
      received += static_cast<std::size_t>(n);
    } else {
      const std::size_t before = received;
      control->poll();
      ASSERT_TRUE(wait_ready(peer, Ready::kReadable, after(std::chrono::seconds(5)))) << before;
    }
  }
  EXPECT_EQ(received, kMessages * (payload.size() + kHeaderBytes));
}

TEST_F(ControlTest, AnotherProtocolIsRefused) {
  feed(std::vector<std::uint8_t>(64, 'G'));
  EXPECT_NE(poll_failure().find("does not speak our protocol"), std::string::npos);
}

TEST_F(ControlTest, AnotherVersionIsRefused) {
  Header header;
  header.version = kProtocolVersion + 1;
  feed(frame(header, {}));
  const std::string versions = fmt::format("protocol version {}, we speak {}", kProtocolVersion + 1, kProtocolVersion);
  EXPECT_NE(poll_failure().find(versions), std::string::npos);
}

TEST_F(ControlTest, AnOversizedMessageIsRefusedBeforeItArrives) {
  Header header;
  header.length = kMaxPayload + 1;
  feed(frame(header, {}));
  EXPECT_NE(poll_failure().find("not our protocol"), std::string::npos);
}

TEST_F(ControlTest, AnAbortBecomesItsSentence) {
  feed(frame(MessageType::kAbort, encode_text("no \033luck")));
  EXPECT_EQ(poll_failure(), "the peer gave up: no ?luck");
}

TEST_F(ControlTest, TheEndOfTheConnectionIsSeenAfterTheLastMessage) {
  feed(frame(MessageType::kFinished, {}));
  peer = Socket();
  const auto message = control->poll();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->type, MessageType::kFinished);
  EXPECT_FALSE(control->poll());
  EXPECT_TRUE(control->closed());
  try {
    control->expect(MessageType::kVerdict);
    ADD_FAILURE() << "should have failed";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "the peer closed the connection before it sent its verdict");
    EXPECT_EQ(failure.exit_code(), kExitUsage);
  }
}

TEST_F(ControlTest, AMessageOutOfTurnIsRefused) {
  feed(frame(MessageType::kReady, {}));
  try {
    control->expect(MessageType::kMetadata);
    ADD_FAILURE() << "should have failed";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("expected was its QP metadata"), std::string::npos) << failure.what();
  }
}

TEST_F(ControlTest, FailuresOfTheTransferHaveAnotherStatus) {
  control->enter_transfer();
  feed(frame(MessageType::kAbort, encode_text("x")));
  try {
    control->poll();
    ADD_FAILURE() << "should have failed";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit_code(), kExitFailed);
  }
}

TEST(Interrupts, AreNoAnswerToALibraryThatWaitsForOne) {
  install_interrupt_handlers();
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Socket service(ends[0]), caller(ends[1]);
  const pid_t child = fork();  // What interrupts a process does so for good.
  if (child == 0) {
    char answer = 0;
    alarm(20);
    _exit(::read(caller.fd(), &answer, sizeof answer) == sizeof answer && interrupted() ? 0 : 1);
  }
  // The first may come before it waits.
  for (const int signal : {SIGINT, SIGTERM}) {
    ASSERT_EQ(kill(child, signal), 0);
    pollfd handled{interrupt_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&handled, 1, 10'000), 1);
    std::uint64_t times = 0;
    EXPECT_EQ(::read(interrupt_fd(), &times, sizeof times), static_cast<ssize_t>(sizeof times));
  }
  ASSERT_EQ(::write(service.fd(), "!", 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Interrupts, OfASecondOneAProcessDies) {
  install_interrupt_handlers();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    raise(SIGINT);
    raise(SIGINT);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
  std::uint64_t times = 0;
  EXPECT_EQ(::read(interrupt_fd(), &times, sizeof times), static_cast<ssize_t>(sizeof times));
}

TEST(Connecting, ToAPeerOfAnotherFamilyIsRefusedAtOnce) {
  install_interrupt_handlers();
  const auto begin = std::chrono::steady_clock::now();
  try {
    connect_to("fd99::1", 1, std::chrono::seconds(20), "127.0.0.1");
    ADD_FAILURE() << "should have failed";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit_code(), kExitUsage);
    EXPECT_STREQ(failure.what(),
                 "can't connect to fd99::1 TCP port 1: fd99::1 has no IPv4 address, and the one of our NIC is "
                 "127.0.0.1: give the NIC an IPv6 address (--addr), or choose one (--gid-index)");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace uroce::tools
