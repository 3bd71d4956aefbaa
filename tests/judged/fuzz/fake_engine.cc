// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/fuzz/fake_engine.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <vector>

#include "engine/os/background_thread.h"
#include "engine/os/os_clock.h"
#include "engine/port/open_port.h"
#include "proto/packet.h"

namespace uroce::fuzz {
namespace {

class FakePort;
constexpr Instant kStart{std::chrono::seconds(1000)};
Instant now_ = kStart;
std::uint32_t to_lose = 0;
std::vector<FakePort*> ports;

class FakePort final : public engine::Port {
 public:
  explicit FakePort(std::span<const proto::Gid> addresses)
      : addresses_(addresses.begin(), addresses.end()), frame_(proto::kMaxPacketSize) {
    ports.push_back(this);
  }
  ~FakePort() override {
    UROCE_ASSERT(held_.empty() && "a QP kept its source port");
    std::erase(ports, this);
  }

  bool has(const proto::Gid& address) const {
    return std::find(addresses_.begin(), addresses_.end(), address) != addresses_.end();
  }

  std::uint16_t acquire_source_port(const proto::Gid& local, std::uint16_t wanted) override {
    UROCE_ASSERT(has(local));
    held_.push_back(wanted);
    return wanted;
  }
  void release_source_port(const proto::Gid& local, std::uint16_t port) override {
    const auto it = std::find(held_.begin(), held_.end(), port);
    UROCE_ASSERT(has(local) && it != held_.end() && "released more often than acquired");
    held_.erase(it);
  }
  MutBytes tx_frame() override { return frame_; }
  void tx_commit(const proto::Transmit& transmit) override {
    constexpr std::size_t kReceiveBuffer = 256;  // Packets.
    UROCE_ASSERT(has(transmit.path.source));
    if (to_lose > 0) {
      --to_lose;
      return;
    }
    for (FakePort* port : ports) {
      if (!port->has(transmit.path.destination) || port->arrived_.size() >= kReceiveBuffer) continue;
      port->arrived_.push_back({transmit.path, {frame_.begin(), frame_.begin() + transmit.size}});
    }
  }
  void flush() override {}
  std::size_t exchange(engine::DatagramSink& sink, std::size_t rx_budget) override {
    std::size_t count = 0;
    for (; count < rx_budget && !arrived_.empty(); ++count) {
      const Packet packet = std::move(arrived_.front());
      arrived_.pop_front();
      sink.on_datagram({packet.path, packet.bytes});
    }
    return count;
  }
  bool wait(std::optional<Instant>) override { return false; }
  void mask_packets(bool) override {}
  void wake() override {}
  void abandon_after_fork() override {}
  engine::PortInfo info() const override { return {"fake", "", "", 0}; }
  engine::PortCounters counters() const override { return {}; }

 private:
  struct Packet {
    proto::Path path;
    std::vector<std::uint8_t> bytes;
  };
  std::vector<proto::Gid> addresses_;
  std::vector<std::uint8_t> frame_;
  std::vector<std::uint16_t> held_;
  std::deque<Packet> arrived_;
};

}  // namespace

void reset_fake_engine() {
  UROCE_ASSERT(ports.empty() && "a NIC outlived its contexts");
  now_ = kStart;
  to_lose = 0;
}
void advance_time(Duration by) { now_ += by; }
void lose_packets(std::uint32_t count) { to_lose = count; }

}  // namespace uroce::fuzz

namespace uroce::engine {

Result<std::unique_ptr<Port>, SetupError> open_port(std::span<const proto::Gid> addresses, EngineChoice) {
  return std::unique_ptr<Port>(std::make_unique<fuzz::FakePort>(addresses));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the engine's declaration.
Result<std::unique_ptr<Port>, SetupError> open_port_on(std::vector<ReceiveSocket>, EngineChoice) {
  return Err{SetupError{EINVAL, "there are no sockets here"}};
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the engine's declaration.
std::unique_ptr<BackgroundThread> start_background_thread(std::function<void()>) {
  return std::make_unique<BackgroundThread>(nullptr);
}
void leave_to_parent(std::unique_ptr<BackgroundThread>) {}  // NOLINT(performance-unnecessary-value-param): likewise.
void BackgroundThread::join() {}
LeavableSleep::LeavableSleep() : state_(nullptr) {}
LeavableSleep::~LeavableSleep() {}  // NOLINT(modernize-use-equals-default): that would ask the engine's to be trivial.
void nap() {}

Instant os_now() { return fuzz::now_; }
std::chrono::nanoseconds wall_clock_now() { return fuzz::now_.time_since_epoch(); }
clockid_t cpu_clock_of_this_thread() { return {}; }
Duration cpu_time(clockid_t) { return {}; }
long preemptions() { return 0; }
bool was_preempted() { return false; }
timespec time_until(Instant) { return {}; }

}  // namespace uroce::engine
