// SPDX-License-Identifier: Apache-2.0
// Trains: packets that pass the kernel together must come out as they went in.
#include "engine/port/open_port.h"
#include "tests/support/port_fixture.h"

namespace uroce::test {
namespace {

struct Car {
  std::uint32_t size;
  std::uint8_t dest_qp;
  std::uint8_t tclass = 0;
};

class TrainTest : public PortTest {
 protected:
  void send(const std::vector<Car>& cars) {
    for (const Car& car : cars) {
      const MutBytes frame = a_->tx_frame();
      ASSERT_FALSE(frame.empty());
      fill(frame.first(car.size), car);
      proto::Path to = path(1, 2);
      to.tclass = car.tclass;
      a_->tx_commit({to, car.size});
      ++sent_;
    }
    a_->flush();
  }
  void expect_received(engine::Port& port, const std::vector<Car>& cars) {
    Inbox inbox;
    receive(port, inbox, cars.size());
    sent_ = 0;
    for (std::size_t i = 0; i < std::min(inbox.packets.size(), cars.size()); ++i, ++sent_) {
      std::vector<std::uint8_t> expected(cars[i].size);
      fill(expected, cars[i]);
      EXPECT_TRUE(inbox.packets[i].bytes == expected) << "packet " << i;
      EXPECT_EQ(inbox.packets[i].path.tclass, cars[i].tclass) << "packet " << i;
    }
    sent_ = 0;
  }

 private:
  /// The number of the packet all over, and the destination QP where a BTH has it.
  void fill(MutBytes packet, const Car& car) const {
    std::fill(packet.begin(), packet.end(), static_cast<std::uint8_t>(sent_));
    if (packet.size() >= 8) packet[5] = packet[6] = packet[7] = car.dest_qp;
  }
  std::size_t sent_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Engines, TrainTest,
                         testing::Values(PortCase{"GsoV4", engine::EngineChoice::kGso, false},
                                         PortCase{"GsoV6", engine::EngineChoice::kGso, true}),
                         case_name);

TEST_P(TrainTest, ManyPacketsAreOneMessage) {
  const std::vector<Car> cars(60, Car{4112, 1});  // Four trains of 15.
  send(cars);
  EXPECT_EQ(a_->counters().system_calls, 1u);
  EXPECT_EQ(a_->counters().sent_packets, 60u);
  expect_received(*b_, cars);
  EXPECT_LE(b_->counters().system_calls, 2u);
  EXPECT_EQ(b_->counters().received_packets, 60u);
  EXPECT_EQ(b_->counters().received_bytes, 60u * 4112);
}

TEST_P(TrainTest, EndsWithAShorterPacketAndBeforeALongerOne) {
  const std::vector<Car> cars{{4128, 1}, {4112, 1}, {4112, 1}, {4112, 1}, {20, 1},
                              {4128, 1}, {64, 1},   {64, 1},   {65, 1}};
  send(cars);
  expect_received(*b_, cars);
}

TEST_P(TrainTest, GoesToOneQpWithOneTrafficClass) {
  const std::vector<Car> cars{{100, 1}, {100, 1}, {100, 2}, {100, 2}, {100, 1}, {100, 1, 8}, {100, 1, 8}, {100, 1}};
  send(cars);
  expect_received(*b_, cars);
}

TEST_P(TrainTest, AReceiverWithoutOffloadGetsPackets) {
  for (const auto engine : {engine::EngineChoice::kSocket, engine::EngineChoice::kIoUring}) {
    b_.reset();
    const proto::Gid to = address(2);
    auto strict = engine::open_port({&to, 1}, engine);
    ASSERT_TRUE(strict) << strict.error().sentence;
    const std::vector<Car> cars(20, Car{4112, 1});
    send(cars);
    expect_received(**strict, cars);
  }
}

}  // namespace
}  // namespace uroce::test
