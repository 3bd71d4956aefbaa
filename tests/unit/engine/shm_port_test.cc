// Packets through shared memory: two ports on loopback addresses.
#include "engine/shm/shm_port.h"

#include "tests/support/port_fixture.h"

namespace uroce::test {
namespace {

using engine::ShmPort;
using testing::SizeIs;

class ShmPortTest : public testing::Test {
 protected:
  static proto::Gid address(std::uint8_t number) { return proto::Gid::from_v4(127, 0, 0, number); }
  static proto::Path path(std::uint8_t from, std::uint8_t to) {
    proto::Path path;
    path.source = address(from);
    path.destination = address(to);
    path.source_port = 0xC0DE;
    path.tclass = 0x6A;
    path.hop_limit = 33;
    return path;
  }

  void SetUp() override { UROCE_NEEDS_OWN_NETWORK(); }

  static std::unique_ptr<ShmPort> open(std::uint8_t number, std::uint8_t slot = 0) {
    const proto::Gid gid = address(number);
    auto udp = engine::open_port({&gid, 1}, engine::EngineChoice::kAuto);
    if (!udp) {
      ADD_FAILURE() << udp.error().sentence;
      return nullptr;
    }
    auto port = ShmPort::open(*udp, {&gid, 1}, slot);
    if (port) return std::move(*port);
    ADD_FAILURE() << port.error().sentence;
    return nullptr;
  }

  /// Queues a packet for a QP of `slot`; its number is behind the BTH.
  static bool queue(engine::Port& port, const proto::Path& path, std::uint32_t number, std::uint32_t size = 64,
                    std::uint8_t slot = 0) {
    const MutBytes frame = port.tx_frame();
    if (frame.empty()) return false;
    std::memset(frame.data(), static_cast<int>(number), size);
    store_be<3>(frame.data() + 5, slot << 16 | 0x11);
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

  /// Sends packets until they go through shared memory; the receiver takes them. Returns how many there were.
  static std::uint32_t link(ShmPort& from, ShmPort& to, const proto::Path& path, std::uint8_t slot = 0) {
    const Instant limit = engine::os_now() + 5s;
    Inbox inbox;
    std::uint32_t sent = 0;
    while (from.counters().sent_by_shm == 0 && engine::os_now() < limit) {
      queue(from, path, sent++, 64, slot);
      from.flush();
      receive(to, inbox, sent);
    }
    EXPECT_GT(from.counters().sent_by_shm, 0u);
    for (std::uint32_t i = 0; i < inbox.packets.size(); ++i) EXPECT_EQ(number_of(inbox.packets[i]), i);
    return sent;
  }
};

TEST_F(ShmPortTest, PacketsGoThroughSharedMemoryOnceThereIsALink) {
  const auto a = open(1);
  const auto b = open(2);
  ASSERT_TRUE(a && b);
  link(*a, *b, path(1, 2));
  const auto before = a->counters().sent_by_shm;
  const auto calls = a->counters().system_calls;
  Inbox inbox;
  for (std::uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(queue(*a, path(1, 2), i, proto::kMaxPacketSize));
  a->flush();
  receive(*b, inbox, 100);
  EXPECT_EQ(a->counters().sent_by_shm, before + 100);
  EXPECT_EQ(a->counters().system_calls, calls) << "nobody was asleep";
  for (std::uint32_t i = 0; i < inbox.packets.size(); ++i) {
    EXPECT_EQ(number_of(inbox.packets[i]), i);
    EXPECT_EQ(inbox.packets[i].path, path(1, 2));
    EXPECT_THAT(inbox.packets[i].bytes, SizeIs(proto::kMaxPacketSize));
    EXPECT_EQ(inbox.packets[i].bytes.back(), static_cast<std::uint8_t>(i));
  }
}

}  // namespace
}  // namespace uroce::test
