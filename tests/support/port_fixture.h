// SPDX-License-Identifier: Apache-2.0
// Two real ports on loopback, for tests of every engine over IPv4 and IPv6.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "engine/os/os_clock.h"
#include "engine/port/open_port.h"
#include "tests/support/own_network.h"

namespace uroce::test {

using namespace std::chrono_literals;

struct PortCase {
  const char* name;
  engine::EngineChoice engine;
  bool v6;
};

inline const PortCase kPortCases[] = {
    {"IoUringV4", engine::EngineChoice::kIoUring, false}, {"IoUringV6", engine::EngineChoice::kIoUring, true},
    {"SocketV4", engine::EngineChoice::kSocket, false},   {"SocketV6", engine::EngineChoice::kSocket, true},
    {"GsoV4", engine::EngineChoice::kGso, false},         {"GsoV6", engine::EngineChoice::kGso, true},
};
/// Those whose packets are on the wire what the standard says.
inline const std::span<const PortCase> kStrictPortCases = std::span(kPortCases).first(4);

inline std::ostream& operator<<(std::ostream& os, const PortCase& port_case) { return os << port_case.name; }
inline std::string case_name(const testing::TestParamInfo<PortCase>& info) { return info.param.name; }

/// Keeps copies of what a port delivers.
struct Inbox final : engine::DatagramSink {
  struct Packet {
    proto::Path path;
    std::vector<std::uint8_t> bytes;
  };
  void on_datagram(const proto::Datagram& datagram) override {
    packets.push_back({datagram.path, {datagram.payload.begin(), datagram.payload.end()}});
  }
  std::vector<Packet> packets;
};

class PortTest : public testing::TestWithParam<PortCase> {
 protected:
  /// Addresses 1 to 3 are distinct.
  static proto::Gid address(std::uint8_t number) {
    if (!GetParam().v6) return proto::Gid::from_v4(127, 0, 0, number);
    return proto::Gid{{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}};
  }

  void SetUp() override {
    UROCE_NEEDS_OWN_NETWORK();
    a_ = open(address(1));
    b_ = open(address(2));
    ASSERT_TRUE(a_ && b_);
  }

  static std::unique_ptr<engine::Port> open(const proto::Gid& gid) {
    auto port = engine::open_port({&gid, 1}, GetParam().engine);
    if (port) return std::move(*port);
    ADD_FAILURE() << port.error().sentence;
    return nullptr;
  }

  static proto::Path path(std::uint8_t from, std::uint8_t to) {
    return {.source = address(from),
            .destination = address(to),
            .source_port = 0xC0DE,
            .tclass = 0,
            .hop_limit = 64,
            .flow_label = 0};
  }

  /// Queues a packet of `size` bytes that starts with `number`; false when no frame is free.
  static bool queue(engine::Port& port, const proto::Path& path, std::uint32_t number, std::uint32_t size = 64) {
    const MutBytes frame = port.tx_frame();
    if (frame.empty()) return false;
    std::memset(frame.data(), static_cast<int>(number), size);
    std::memcpy(frame.data(), &number, std::min<std::size_t>(size, sizeof number));
    port.tx_commit({path, size});
    return true;
  }
  static std::uint32_t number_of(const Inbox::Packet& packet) {
    std::uint32_t number = 0;
    std::memcpy(&number, packet.bytes.data(), std::min(packet.bytes.size(), sizeof number));
    return number;
  }

  /// Receives until `inbox` holds `count` packets; gives up after some seconds.
  static void receive(engine::Port& port, Inbox& inbox, std::size_t count) {
    const Instant limit = engine::os_now() + 5s;
    while (inbox.packets.size() < count && engine::os_now() < limit) {
      if (port.exchange(inbox, 64) == 0) port.wait(limit);
    }
    EXPECT_EQ(inbox.packets.size(), count);
  }

  std::unique_ptr<engine::Port> a_, b_;
};

}  // namespace uroce::test
