// SPDX-License-Identifier: Apache-2.0
// What a NIC sends when it is closed, into a network that has little room.
#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>

#include "engine/run/runner.h"
#include "proto/packet.h"
#include "tests/support/echo_nic.h"
#include "tests/support/port_fixture.h"

namespace uroce::test {
namespace {

using engine::os_now;

/// What became of the packets of a NarrowPort, which ends with its runner.
struct Sent {
  std::size_t committed = 0;
  bool all_left = false;  ///< When the port ended.
};

/// A network with room for some packets, for as many again behind each wait for it, and no more than `most` in all.
/// They leave at the third flush().
class NarrowPort final : public engine::Port {
 public:
  NarrowPort(Sent& sent, std::size_t most) : sent_(sent), left_(most) {}
  ~NarrowPort() override { sent_.all_left = is_idle(); }

  std::uint16_t acquire_source_port(const proto::Gid&, std::uint16_t wanted) override { return wanted; }
  void release_source_port(const proto::Gid&, std::uint16_t) override {}
  MutBytes tx_frame() override { return room_ > 0 && left_ > 0 ? MutBytes(frame_) : MutBytes{}; }
  void tx_commit(const proto::Transmit&) override {
    --room_;
    --left_;
    ++sent_.committed;
    flushes_ = 3;
  }
  void flush() override { flushes_ = std::max(flushes_ - 1, 0); }
  bool is_idle() const override { return flushes_ == 0; }
  std::size_t exchange(engine::DatagramSink&, std::size_t) override { return 0; }
  bool wait(std::optional<Instant> deadline) override {
    if (deadline) {
      room_ = kRoom;
      return false;
    }
    std::unique_lock lock(mutex_);
    woken_.wait(lock, [this] { return std::exchange(is_woken_, false); });
    return true;
  }
  void mask_packets(bool) override {}
  void wake() override {
    const std::scoped_lock lock(mutex_);
    is_woken_ = true;
    woken_.notify_all();
  }
  void abandon_after_fork() override {}
  engine::PortInfo info() const override { return {}; }
  engine::PortCounters counters() const override { return {}; }

 private:
  static constexpr std::size_t kRoom = 10;
  Sent& sent_;
  std::size_t room_ = kRoom, left_;
  int flushes_ = 0;  ///< Until those that were committed have left.
  std::array<std::uint8_t, proto::kMaxPacketSize> frame_{};
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;
};

/// Closes a NIC that has so many packets to send, to a network that takes `most` of them.
Sent close_with(std::size_t packets, std::size_t most) {
  Sent sent;
  EchoNic nic({});
  {
    engine::Runner<EchoNic> runner(nic, std::make_unique<NarrowPort>(sent, most));
    const auto lock = runner.lock();
    for (std::size_t i = 0; i < packets; ++i) nic.post({}, i);
  }
  return sent;
}

TEST(LastPackets, WaitForRoom) {
  const Sent sent = close_with(105, 1000);
  EXPECT_EQ(sent.committed, 105u);
  EXPECT_TRUE(sent.all_left);
}

TEST(LastPackets, DoNotWaitForEver) {
  const Instant begin = os_now();
  EXPECT_EQ(close_with(105, 50).committed, 50u);
  EXPECT_GE(os_now() - begin, engine::kLastWait);
}

}  // namespace
}  // namespace uroce::test
