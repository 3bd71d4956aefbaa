// SPDX-License-Identifier: Apache-2.0
// Peers' messages that find no memory to be told of: they are told of when there is some, once.
#include <new>

#include "proto/address.h"
#include "tests/support/operator_new.h"
#include "tests/unit/rdmacm/two_devices.h"
#include "verbs/ibverbs/host/adapter.h"
#include "verbs/rdmacm/front.h"

namespace {

/// How often memory can be had in this thread; -1: always.
thread_local int allocations_left = -1;

}  // namespace

bool uroce::test::may_allocate() {
  if (allocations_left <= 0) return allocations_left < 0;
  --allocations_left;
  return true;
}

namespace uroce::rdmacm {
namespace {

/// Between a NIC and the front, which has memory for 0, 1, 2 ... allocations, until it has told of everything.
struct Starves final : ibv::CmSink {
  explicit Starves(std::shared_ptr<ibv::Adapter> nic) : adapter(std::move(nic)) { set(this); }
  ~Starves() override { set(&Front::get()); }
  void set(ibv::CmSink* sink) const { adapter->set_cm_sink(sink); }
  void on_cm_events(ibv::Adapter& from, cm::Cm& cm) override {
    for (int enough = 0; cm.next_event() != nullptr; ++enough) {
      allocations_left = enough;
      Front::get().on_cm_events(from, cm);
      allocations_left = -1;
      if (cm.next_event() != nullptr) ++times;
    }
  }
  void on_removal(ibv::Adapter& from) override { Front::get().on_removal(from); }
  std::shared_ptr<ibv::Adapter> adapter;
  std::atomic<int> times = 0;  ///< It was not enough.
};

using NoMemoryTest = TwoDevices;

TEST_F(NoMemoryTest, EventsAreToldOfWhenThereIsSomeOnce) {
  const auto first = Front::get().nics().with_address(*proto::parse_gid(kFirst));
  const auto second = Front::get().nics().with_address(*proto::parse_gid(kSecond));
  ASSERT_TRUE(first.ok() && second.ok());
  const Starves server_starves(first->adapter), client_starves(second->adapter);
  const std::uint32_t listener = listening();
  for (std::uint32_t i = 0; i < 40; ++i) {  // More than a queue has room for at first.
    const std::uint32_t active = connecting();
    const auto request = server_.next();
    ASSERT_EQ(request.event, kRequest);
    EXPECT_EQ(request.id, listener + 1 + 2 * i + 1) << "no id is lost";
    ASSERT_EQ(server_.accept(request.id, 11), 0);
    ASSERT_EQ(client_.next().event, kResponse);
    ASSERT_EQ(client_.accept(active, 0, 0, false), 0);
    ASSERT_EQ(server_.next().event, kEstablished);
    ASSERT_EQ(client_.disconnect(active), 0);
    ASSERT_EQ(server_.next().event, kDisconnected);
    ASSERT_EQ(server_.disconnect(request.id), 0);
    ASSERT_EQ(client_.next().event, kDisconnected);
  }
  EXPECT_FALSE(server_.is_readable());
  EXPECT_FALSE(client_.is_readable());
  EXPECT_GT(server_starves.times, 40);
}

}  // namespace
}  // namespace uroce::rdmacm
