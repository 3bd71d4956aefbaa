// SPDX-License-Identifier: Apache-2.0
// Listing, opening and querying devices.
#include "verbs/ibverbs/host/device.h"

#include <arpa/inet.h>
#include <endian.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/os/fd.h"
#include "engine/os/os_clock.h"
#include "proto/packet.h"
#include "proto/pcap_reader.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/host/adapter.h"
#include "verbs/nic/model/limits.h"

namespace uroce::ibv::test {
namespace {

/// Sets an environment variable for one scope.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~ScopedEnv() { unsetenv(name_); }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  const char* name_;
};

struct ibv_device* first_device() {
  struct ibv_device** list = v().ibv_get_device_list(nullptr);
  struct ibv_device* first = list[0];
  v().ibv_free_device_list(list);
  return first;
}

TEST(Device, ListEndsWithNullAndNamesAreInOrder) {
  int count = 0;
  struct ibv_device** list = v().ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(count, 2);
  EXPECT_EQ(list[2], nullptr);
  EXPECT_STREQ(v().ibv_get_device_name(list[0]), "uroce0");
  EXPECT_STREQ(v().ibv_get_device_name(list[1]), "uroce1");
  EXPECT_EQ(v().ibv_get_device_index(list[1]), 1);
  EXPECT_EQ(list[0]->node_type, IBV_NODE_CA);
  EXPECT_EQ(list[0]->transport_type, IBV_TRANSPORT_IB);
  EXPECT_NE(v().ibv_get_device_guid(list[0]), v().ibv_get_device_guid(list[1]));
  v().ibv_free_device_list(list);
}

TEST(Device, PointersSurviveTheListAndAreTheSameInTheNext) {
  struct ibv_device* const device = first_device();
  EXPECT_EQ(first_device(), device);
  EXPECT_STREQ(device->name, "uroce0");
}

// librdmacm asks for it before it opens the device, and knows the device by it. Clients that start at once all see the
// same free address.
TEST(Device, TheGuidRemainsWhereItsAddressIsTakenBeforeItIsOpened) {
  constexpr std::uint8_t kTaken = 9;
  const __be64 before = v().ibv_get_device_guid(first_device());
  std::vector<engine::Fd> others;
  ContextPtr context;
  union ibv_gid gid {};
  // Another NIC may have an address, and give it back before ours is opened: then once more.
  for (const Instant limit = engine::os_now() + std::chrono::seconds(10);
       gid.raw[15] <= kTaken && engine::os_now() < limit;) {
    context.reset();
    for (std::uint8_t n = 1; n <= kTaken; ++n) {
      others.emplace_back(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      const sockaddr_in address{.sin_family = AF_INET,
                                .sin_port = htons(proto::kRocePort),
                                .sin_addr = {htonl(INADDR_LOOPBACK - 1 + n)},
                                .sin_zero = {}};
      if (::bind(others.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        others.pop_back();
    }
    context = open_device(0);
    ASSERT_EQ(v().ibv_query_gid(context.get(), 1, 1, &gid), 0);
  }
  struct ibv_device_attr attr {};
  ASSERT_EQ(v().ibv_query_device(context.get(), &attr), 0);
  EXPECT_EQ(attr.node_guid, before);
  EXPECT_EQ(v().ibv_get_device_guid(context->device), before);
  const bool is_open = static_cast<Device*>(context->device)->while_open([before](Adapter& adapter) {
    EXPECT_EQ(NicLock(adapter).cm().config().guid, be64toh(before)) << "what peers are told";
  });
  EXPECT_TRUE(is_open);
  EXPECT_GT(gid.raw[15], kTaken);
}

TEST(Device, ContextsOfOneDeviceShareTheNic) {
  const ContextPtr one = open_device(0);
  const ContextPtr two = open_device(0);
  const ContextPtr other = open_device(1);
  const auto a = nic_facts(one.get());
  const auto b = nic_facts(two.get());
  const auto c = nic_facts(other.get());
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(a->addresses, b->addresses);
  EXPECT_NE(a->addresses, c->addresses);
}

TEST(Device, ForeignContextsHaveNoFacts) {
  struct ibv_context foreign {};
  EXPECT_FALSE(nic_facts(&foreign).has_value());
  EXPECT_FALSE(nic_facts(nullptr).has_value());
}

TEST(Device, ReportsTheLimitsOfTheNic) {
  const ContextPtr context = open_device(0);
  struct ibv_device_attr attr {};
  ASSERT_EQ(v().ibv_query_device(context.get(), &attr), 0);
  EXPECT_EQ(attr.max_qp_wr, static_cast<int>(nic::kMaxQpWr));
  EXPECT_EQ(attr.max_sge, static_cast<int>(nic::kMaxSge));
  EXPECT_EQ(attr.max_cqe, static_cast<int>(nic::kMaxCqe));
  EXPECT_EQ(attr.max_qp_rd_atom, static_cast<int>(nic::kMaxRdAtomic));
  EXPECT_EQ(attr.phys_port_cnt, 1);
  EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_EQ(std::string(attr.fw_ver).rfind("uroce ", 0), 0u);
}

TEST(Device, PortIsAnActiveEthernetPort) {
  const ContextPtr context = open_device(0);
  struct verbs_context* extended = verbs_get_ctx(context.get());
  ASSERT_NE(extended, nullptr);
  struct ibv_port_attr attr {};
  ASSERT_EQ(extended->query_port(context.get(), 1, &attr, sizeof attr), 0);
  EXPECT_EQ(attr.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(attr.active_mtu, IBV_MTU_4096);
  EXPECT_EQ(attr.gid_tbl_len, 2);
  EXPECT_EQ(attr.pkey_tbl_len, 1);
  for (const int port : {0, 2, 255}) {
    EXPECT_EQ(extended->query_port(context.get(), static_cast<std::uint8_t>(port), &attr, sizeof attr), EINVAL);
  }
}

TEST(Device, QueryPortHonoursTheCallersIdeaOfTheStructure) {
  const ContextPtr context = open_device(0);
  struct verbs_context* extended = verbs_get_ctx(context.get());
  struct ibv_port_attr whole {};
  ASSERT_EQ(extended->query_port(context.get(), 1, &whole, sizeof whole), 0);
  for (const std::size_t size : {std::size_t{8}, sizeof whole, sizeof whole + 8}) {
    std::vector<std::uint8_t> storage(sizeof whole + 16, 0xEE);
    auto* attr = reinterpret_cast<struct ibv_port_attr*>(storage.data());
    ASSERT_EQ(extended->query_port(context.get(), 1, attr, size), 0);
    EXPECT_EQ(std::memcmp(storage.data(), &whole, std::min(size, sizeof whole)), 0);
    EXPECT_TRUE(std::all_of(storage.begin() + static_cast<long>(std::min(size, sizeof whole)),
                            storage.begin() + static_cast<long>(size), [](std::uint8_t byte) { return byte == 0; }));
    EXPECT_EQ(storage[size], 0xEE);
  }
}

TEST(Device, OldQueryPortEndsWithFlags) {
  const ContextPtr context = open_device(0);
  std::vector<std::uint8_t> storage(sizeof(struct ibv_port_attr) + 8, 0xEE);
  auto* attr = reinterpret_cast<struct ibv_port_attr*>(storage.data());
  ASSERT_EQ(v().ibv_query_port(context.get(), 1, reinterpret_cast<struct _compat_ibv_port_attr*>(attr)), 0);
  EXPECT_EQ(attr->link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(attr->flags, IBV_QPF_GRH_REQUIRED);
  EXPECT_EQ(storage[offsetof(struct ibv_port_attr, port_cap_flags2)], 0xEE);
}

TEST(Device, GidTableStartsWithTheLinkLocalOneOfTheAddress) {
  const ContextPtr context = open_device(0);
  union ibv_gid first {
  }, gid{};
  ASSERT_EQ(v().ibv_query_gid(context.get(), 1, 0, &first), 0);
  EXPECT_EQ(first.raw[0], 0xFE);
  EXPECT_EQ(first.raw[1], 0x80);
  ASSERT_EQ(v().ibv_query_gid(context.get(), 1, 1, &gid), 0);
  EXPECT_TRUE(std::equal(gid.raw + 13, gid.raw + 16, first.raw + 13)) << "the last bytes of 127.0.0.n";
  EXPECT_EQ(gid.raw[10], 0xFF);
  EXPECT_EQ(gid.raw[12], 127);
  for (const int index : {-1, 2, 1000}) EXPECT_EQ(v().ibv_query_gid(context.get(), 1, index, &gid), -1) << index;
  EXPECT_EQ(v().ibv_query_gid(context.get(), 2, 0, &gid), -1);
}

TEST(Device, PkeyTableHoldsTheDefaultKey) {
  const ContextPtr context = open_device(0);
  __be16 pkey = 0;
  EXPECT_EQ(v().ibv_query_pkey(context.get(), 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xFFFF);
  EXPECT_EQ(v().ibv_query_pkey(context.get(), 1, 1, &pkey), -1);
  EXPECT_EQ(v().ibv_get_pkey_index(context.get(), 1, 0xFFFF), 0);
  EXPECT_EQ(v().ibv_get_pkey_index(context.get(), 1, 0x1234), -1);
}

TEST(Device, UnknownEngineIsRefusedWithASentence) {
  const ScopedEnv env("UROCE_ENGINE", "steam");
  errno = 0;
  EXPECT_EQ(v().ibv_open_device(first_device()), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_NE(last_error().find("UROCE_ENGINE"), std::string::npos);
  EXPECT_NE(last_error().find("steam"), std::string::npos);
}

TEST(Device, SocketEngineOnDemand) {
  const ScopedEnv env("UROCE_ENGINE", "socket");
  const ContextPtr context = open_device(0);
  EXPECT_EQ(nic_facts(context.get())->port.engine, "socket");
}

TEST(Device, OffloadOnDemandAndWithSocketsOnly) {
  const ScopedEnv env("UROCE_OFFLOAD", "gso");
  {
    const ContextPtr context = open_device(0);
    EXPECT_NE(nic_facts(context.get())->port.features.find("udp-gso"), std::string::npos);
  }
  const ScopedEnv contradiction("UROCE_ENGINE", "io_uring");
  EXPECT_EQ(v().ibv_open_device(first_device()), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_NE(last_error().find("UROCE_OFFLOAD=gso"), std::string::npos) << last_error();
}

TEST(Device, UnknownOffloadIsRefusedWithASentence) {
  const ScopedEnv env("UROCE_OFFLOAD", "tso");
  EXPECT_EQ(v().ibv_open_device(first_device()), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_NE(last_error().find("'tso'"), std::string::npos) << last_error();
}

TEST(Device, CaptureThatCannotBeWrittenIsAnError) {
  const ScopedEnv env("UROCE_PCAP", "/nowhere/to/be/found.pcap");
  errno = 0;
  EXPECT_EQ(v().ibv_open_device(first_device()), nullptr);
  EXPECT_NE(errno, 0);
  EXPECT_NE(last_error().find("UROCE_PCAP"), std::string::npos);
}

TEST(Device, CapturesThePacketsOfAllNicsIntoOneFile) {
  const auto file = std::filesystem::path(testing::TempDir()) / ("uroce_capture_" + std::to_string(getpid()) + ".pcap");
  {
    const ScopedEnv env("UROCE_PCAP", file.string());
    Pair p;
    EXPECT_EQ(nic_facts(p.a.context.get())->pcap, file.string());
    ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, 100)), 0);
    struct ibv_sge sge = p.a.sge(0, 100);
    ASSERT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
    EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
  }
  constexpr std::uintmax_t kFileHeader = 24;
  EXPECT_GT(std::filesystem::file_size(file), kFileHeader + 2 * (2 * 100)) << "of both NICs: the SEND and its ACK";
  std::filesystem::remove(file);
}

TEST(Device, ReopenedGoesOnWithItsCapture) {
  const auto file =
      std::filesystem::path(testing::TempDir()) / ("uroce_reopened_" + std::to_string(getpid()) + ".pcap");
  const auto packets = [&file] {
    auto reader = proto::PcapReader::open(file.string());
    int count = 0;
    while (const auto frame = reader->next()) {
      if (!frame.ok() || !*frame) return frame.ok() ? count : -1;
      ++count;
    }
    return -1;
  };
  const ScopedEnv env("UROCE_PCAP", file.string());
  for (int round = 1; round <= 3; ++round) {
    {
      Pair p;
      struct ibv_sge sge = p.a.sge(0, 100);
      struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
      wr.wr.rdma.remote_addr = p.b.address();
      wr.wr.rdma.rkey = p.b.mr->rkey;
      ASSERT_EQ(post(p.qa.get(), wr), 0);
      EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
    }
    EXPECT_GE(packets(), 2 * round);
  }
  std::filesystem::remove(file);
}

TEST(Device, FactsCountPackets) {
  Pair p;
  const auto before = nic_facts(p.a.context.get());
  struct ibv_sge sge = p.a.sge(0, 5000);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
  wr.wr.rdma.remote_addr = p.b.address();
  wr.wr.rdma.rkey = p.b.mr->rkey;
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
  const auto after = nic_facts(p.a.context.get());
  EXPECT_GE(after->counters.sent_pkts, before->counters.sent_pkts + 5);  // At an MTU of 1024.
  EXPECT_GE(after->port_counters.sent_packets, before->port_counters.sent_packets + 5);
  EXPECT_EQ(after->counters.icrc_errors, 0u);
}

TEST(Device, ClosingCleansUpWhatWasLeftBehind) {
  // As the kernel does. Leak checkers and the NIC's own invariants are the judges here.
  ContextPtr context = open_device(0);
  struct ibv_pd* pd = v().ibv_alloc_pd(context.get());
  struct ibv_comp_channel* channel = v().ibv_create_comp_channel(context.get());
  struct ibv_cq* cq = v().ibv_create_cq(context.get(), 16, nullptr, channel, 0);
  std::vector<std::uint8_t> memory(4096);
  ASSERT_NE(v().ibv_reg_mr(pd, memory.data(), memory.size(), 0), nullptr);
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = cq;
  init.cap = {16, 16, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  ASSERT_NE(v().ibv_create_qp(pd, &init), nullptr);
  const ContextPtr second = open_device(0);
  context.reset();
  // The NIC lives on for the other context.
  EXPECT_NE(nic_facts(second.get()), std::nullopt);
  struct ibv_pd* again = v().ibv_alloc_pd(second.get());
  EXPECT_EQ(v().ibv_dealloc_pd(again), 0);
}

TEST(Device, ChildOfForkHasToOpenTheDeviceAgain) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  Pair p;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    struct ibv_sge sge = p.a.sge(0, 8);
    struct ibv_wc wc;
    const bool dead = post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)) == EIO &&
                      ibv_poll_cq(p.a.send_cq, 1, &wc) == -EIO && v().ibv_alloc_pd(p.a.context.get()) == nullptr &&
                      errno == EIO;
    struct ibv_context* fresh = v().ibv_open_device(p.a.context->device);
    const bool alive = fresh != nullptr && v().ibv_alloc_pd(fresh) != nullptr;
    if (fresh != nullptr) v().ibv_close_device(fresh);
    _exit(dead && alive ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  // The parent has noticed nothing.
  ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, 8)), 0);
  struct ibv_sge sge = p.a.sge(0, 8);
  ASSERT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace uroce::ibv::test
