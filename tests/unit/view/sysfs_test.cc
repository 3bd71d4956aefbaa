// SPDX-License-Identifier: Apache-2.0
// The files that the view has, and what they say.
#include "verbs/view/sysfs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "verbs/view/port_counters.h"

namespace uroce::view {
namespace {

using ::testing::IsSupersetOf;

class FakeSource : public NicSource {
 public:
  std::uint32_t count() const override { return static_cast<std::uint32_t>(nics.size()); }
  NicView nic(std::uint32_t index) const override { return nics.at(index); }
  std::vector<InterfaceView> interfaces(std::uint32_t) const override { return {{1, "lo"}, {1, "lo"}, {7, "eth7"}}; }

  static NicView make(std::uint32_t index) {
    NicView nic;
    nic.index = index;
    nic.name = "uroce" + std::to_string(index);
    nic.verbs_name = "uverbs" + std::to_string(index);
    nic.firmware = "uroce 1.2.3";
    nic.guid = {0x02, 0x00, 0x7f, 0xff, 0xfe, 0x00, 0x00, 0x07};
    nic.gids = {proto::Gid{}, proto::Gid::from_v4(127, 0, 0, 7), proto::Gid::from_v4(192, 0, 2, 7)};
    nic.port_capabilities = 0x04010000;
    return nic;
  }
  std::vector<NicView> nics{make(0), make(1)};
};

class SysfsTest : public ::testing::Test {
 protected:
  /// What a program reads at this path, or "" if there is no such file.
  std::string read(const std::string& path) const {
    const Resolution found = tree_.resolve(path, true);
    if (found.node == nullptr || found.node->kind != Node::Kind::kFile) return "";
    return found.node->contents();
  }
  std::vector<std::string> names(const std::string& path) const {
    std::vector<std::string> names;
    for (const Entry& entry : tree_.list(tree_.resolve(path, true).path)) names.push_back(entry.name);
    return names;
  }

  FakeSource source_;
  Tree tree_ = make_sysfs(source_);
};

TEST_F(SysfsTest, NamesTheDevices) {
  EXPECT_THAT(names("/sys/class/infiniband"), ::testing::ElementsAre("uroce0", "uroce1"));
  EXPECT_THAT(names("/sys/class/infiniband_verbs"), ::testing::ElementsAre("abi_version", "uverbs0", "uverbs1"));
  EXPECT_THAT(names("/dev/infiniband"), ::testing::ElementsAre("rdma_cm", "uverbs0", "uverbs1"));
  EXPECT_EQ(read("/sys/class/misc/rdma_cm/abi_version"), "4\n");
  EXPECT_EQ(read("/sys/class/infiniband_verbs/abi_version"), "6\n");
  EXPECT_EQ(read("/sys/class/infiniband_mad/abi_version"), "5\n");
  EXPECT_EQ(read("/sys/class/infiniband_verbs/uverbs1/ibdev"), "uroce1\n");
  EXPECT_EQ(read("/sys/class/infiniband_verbs/uverbs1/dev"), "231:193\n");
  const Node* const device = tree_.find("/dev/infiniband/uverbs1");
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->kind, Node::Kind::kCharDevice);
  EXPECT_EQ(device->minor, 193u);
}

TEST_F(SysfsTest, TellsOfTheDevice) {
  const std::string dir = "/sys/class/infiniband/uroce1/";
  EXPECT_EQ(read(dir + "node_type"), "1: CA\n");
  EXPECT_EQ(read(dir + "node_guid"), "0200:7fff:fe00:0007\n");
  EXPECT_EQ(read(dir + "sys_image_guid"), "0200:7fff:fe00:0007\n");
  EXPECT_EQ(read(dir + "node_desc"), "uroce1\n");
  EXPECT_EQ(read(dir + "fw_ver"), "uroce 1.2.3\n");
  EXPECT_EQ(read(dir + "hca_type"), "uroce\n");
  EXPECT_EQ(read(dir + "board_id"), "uroce\n");
}

TEST_F(SysfsTest, TellsOfThePort) {
  const std::string dir = "/sys/class/infiniband/uroce0/ports/1/";
  EXPECT_EQ(read(dir + "state"), "4: ACTIVE\n");
  EXPECT_EQ(read(dir + "phys_state"), "5: LinkUp\n");
  EXPECT_EQ(read(dir + "link_layer"), "Ethernet\n");
  EXPECT_EQ(read(dir + "rate"), "10 Gb/sec (1X QDR)\n");
  EXPECT_EQ(read(dir + "lid"), "0x0\n");
  source_.nics[0].lid = 7;
  EXPECT_EQ(read(dir + "lid"), "0x7\n");
  EXPECT_EQ(read(dir + "cap_mask"), "0x04010000\n");
  EXPECT_EQ(read(dir + "pkeys/0"), "0xffff\n");
  EXPECT_EQ(read(dir + "gids/1"), "0000:0000:0000:0000:0000:ffff:7f00:0007\n");
  EXPECT_EQ(read(dir + "gids/3"), "");
  EXPECT_EQ(read(dir + "gid_attrs/types/1"), "RoCE v2\n");
  EXPECT_EQ(read(dir + "gid_attrs/ndevs/1"), "lo\n");
  EXPECT_EQ(read(dir + "gid_attrs/ndevs/2"), "eth7\n");
}

TEST_F(SysfsTest, LinksStayInTheView) {
  const std::string device = "/sys/devices/virtual/uroce/uroce0";
  EXPECT_EQ(tree_.resolve("/sys/class/infiniband/uroce0/device", true).path, device);
  EXPECT_EQ(tree_.resolve("/sys/class/infiniband/uroce0/subsystem", true).path, "/sys/class/infiniband");
  EXPECT_EQ(tree_.resolve("/sys/class/infiniband_verbs/uverbs0/device", true).path, device);
  EXPECT_EQ(tree_.resolve("/sys/class/infiniband_verbs/uverbs0/subsystem", true).path, "/sys/class/infiniband_verbs");
  EXPECT_EQ(tree_.resolve("/sys/class/infiniband/uroce0/device/net/lo", true).path, "/sys/class/net/lo");
  EXPECT_EQ(read("/sys/class/infiniband/uroce0/device/numa_node"), "-1\n");
}

TEST_F(SysfsTest, SaysWhatIsSoNow) {
  const std::string port = "/sys/class/infiniband/uroce1/ports/1/";
  EXPECT_EQ(read(port + "hw_counters/sent_pkts"), "0\n");
  source_.nics[1].counters.sent_pkts = 18446744073709551615u;
  source_.nics[1].wire.sent_bytes = 4096;
  source_.nics[1].port_up = false;
  EXPECT_EQ(read(port + "hw_counters/sent_pkts"), "18446744073709551615\n");
  EXPECT_EQ(read(port + "counters/port_xmit_data"), "1024\n") << "words of four bytes";
  EXPECT_EQ(read(port + "state"), "1: DOWN\n");
  EXPECT_EQ(read(port + "phys_state"), "3: Disabled\n");
  EXPECT_EQ(read("/sys/class/infiniband/uroce0/ports/1/hw_counters/sent_pkts"), "0\n") << "the other NIC";
}

TEST_F(SysfsTest, HasTheCountersThatToolsLookFor) {
  const std::vector<std::string> hw = names("/sys/class/infiniband/uroce0/ports/1/hw_counters");
  EXPECT_THAT(
      hw, IsSupersetOf({"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err",
                        "send_rnr_err", "rcvd_seq_err", "ack_deferred", "retry_exceeded_err", "retry_rnr_exceeded_err",
                        "completer_retry_err", "send_err", "link_downed", "rdma_sends", "rdma_recvs"}))
      << "those of rxe";
  EXPECT_THAT(hw, IsSupersetOf({"out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "np_cnp_sent",
                                "rp_cnp_handled", "np_ecn_marked_roce_packets", "out_of_buffer"}))
      << "those of mlx5";
  EXPECT_THAT(names("/sys/class/infiniband/uroce0/ports/1/counters"),
              IsSupersetOf({"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets",
                            "port_rcv_errors", "port_xmit_discards", "symbol_error", "VL15_dropped"}));
}

/// Every counter of the NIC is under some name: none was forgotten when it was added.
TEST(PortCounters, ShowAllThatTheNicCounts) {
  NicView nic;
  static_assert(sizeof(nic::Counters) % sizeof(std::uint64_t) == 0);
  auto* const first = reinterpret_cast<std::uint64_t*>(&nic.counters);
  std::size_t hidden = 0;
  for (std::size_t i = 0; i < sizeof nic.counters / sizeof *first; ++i) {
    first[i] = 1;
    bool seen = false;
    for (const auto& rows : {hw_counters(), port_counters()}) {
      for (const CounterRow& row : rows) seen |= row.value(nic) != 0;
    }
    if (!seen) ++hidden;
    first[i] = 0;
  }
  EXPECT_EQ(hidden, 0u) << "a new counter wants a name in verbs/view/port_counters.cc";
}

TEST(Sysfs, WithoutNicsHasItsDirectoriesAll) {
  FakeSource none;
  none.nics.clear();
  const Tree tree = make_sysfs(none);
  EXPECT_NE(tree.find("/sys/class/infiniband"), nullptr);
  EXPECT_EQ(tree.list("/dev/infiniband").size(), 1u) << "rdma_cm";
}

}  // namespace
}  // namespace uroce::view
