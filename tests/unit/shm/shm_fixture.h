// SPDX-License-Identifier: Apache-2.0
// Ports with shared memory on loopback addresses.
#pragma once

#include "engine/shm/shm_port.h"
#include "tests/support/port_fixture.h"

namespace uroce::test {

class ShmTest : public testing::Test {
 protected:
  using ShmPort = engine::ShmPort;

  void SetUp() override { UROCE_NEEDS_OWN_NETWORK(); }

  static proto::Gid address(std::uint8_t number) { return proto::Gid::from_v4(127, 0, 0, number); }
  static proto::Path path(std::uint8_t from, std::uint8_t to) {
    return {.source = address(from),
            .destination = address(to),
            .source_port = 0xC0DE,
            .tclass = 0x6A,
            .hop_limit = 33,
            .flow_label = 0};
  }

  static std::unique_ptr<ShmPort> with_links(std::unique_ptr<engine::Port> udp, std::uint8_t number,
                                             std::uint8_t slot) {
    const proto::Gid gid = address(number);
    auto port = ShmPort::open(udp, {&gid, 1}, slot);
    if (port) return std::move(*port);
    ADD_FAILURE() << port.error().sentence;
    return nullptr;
  }
  static std::unique_ptr<engine::Port> open_udp(std::uint8_t number) {
    const proto::Gid gid = address(number);
    auto udp = engine::open_port({&gid, 1}, engine::EngineChoice::kAuto);
    if (udp) return std::move(*udp);
    ADD_FAILURE() << udp.error().sentence;
    return nullptr;
  }
  static std::unique_ptr<ShmPort> open(std::uint8_t number) { return with_links(open_udp(number), number, 0); }

  /// Queues a packet for a QP of `slot`; its number is behind the BTH.
  static bool queue(engine::Port& port, const proto::Path& path, std::uint32_t number, std::uint32_t size = 64,
                    std::uint8_t slot = 0) {
    const MutBytes frame = port.tx_frame();
    if (frame.empty()) return false;
    std::memset(frame.data(), static_cast<int>(number), size);
    store_be<3>(frame.data() + 5, std::uint64_t{slot} << 16 | 0x11);
    store_be<4>(frame.data() + 12, number);
    port.tx_commit({path, size});
    return true;
  }
  static std::uint32_t number_of(const Inbox::Packet& packet) {
    return static_cast<std::uint32_t>(load_be<4>(packet.bytes.data() + 12));
  }

  static void receive(engine::Port& port, Inbox& inbox, std::size_t count) {
    const Instant limit = engine::os_now() + 5s;
    while (inbox.packets.size() < count && engine::os_now() < limit) {
      if (port.exchange(inbox, 64) == 0) port.wait(limit);
    }
    EXPECT_EQ(inbox.packets.size(), count);
  }
  static void expect_in_order(const Inbox& inbox) {
    for (std::uint32_t i = 0; i < inbox.packets.size(); ++i) ASSERT_EQ(number_of(inbox.packets[i]), i);
  }

  /// Sends packets until one goes through a link; the receiver takes them all. False: it never did.
  static bool link(ShmPort& from, engine::Port& to, const proto::Path& path, std::uint8_t slot = 0,
                   Duration patience = 5s) {
    const std::uint64_t before = from.counters().sent_by_shm;
    const Instant limit = engine::os_now() + patience;
    Inbox inbox;
    std::uint32_t sent = 0;
    while (from.counters().sent_by_shm == before && engine::os_now() < limit) {
      queue(from, path, sent++, 64, slot);
      from.flush();
      receive(to, inbox, sent);
    }
    expect_in_order(inbox);
    return from.counters().sent_by_shm > before;
  }

  /// Sends until a packet does not go through a link: that has ended.
  static bool unlinks(ShmPort& from, const proto::Path& path) {
    const Instant limit = engine::os_now() + 5s;
    Inbox inbox;
    while (engine::os_now() < limit) {
      const std::uint64_t before = from.counters().sent_by_shm + from.counters().send_errors;
      const bool queued = queue(from, path, 0);
      from.exchange(inbox, 64);
      if (!queued) continue;  // Its ring is full.
      if (from.counters().sent_by_shm + from.counters().send_errors == before) return true;
    }
    return false;
  }
};

}  // namespace uroce::test
