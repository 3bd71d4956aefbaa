// SPDX-License-Identifier: Apache-2.0
// What `rdma` of iproute2 and librdmacm hear from us.
#include "verbs/view/rdma_netlink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/rdma_netlink.h>

#include <map>
#include <random>

#include "verbs/view/netlink_message.h"

namespace uroce::view {
namespace {

using namespace std::string_literals;

constexpr std::uint32_t kOurPort = 4711, kSequence = 99;

class OneNic : public NicSource {
 public:
  std::uint32_t count() const override { return 1; }
  NicView nic(std::uint32_t) const override {
    NicView nic;
    nic.name = "uroce0";
    nic.firmware = "uroce 1";
    nic.guid = {0x02, 0, 0x7f, 0xff, 0xfe, 0, 0, 9};
    nic.counters.sent_pkts = 12;
    return nic;
  }
  std::vector<InterfaceView> interfaces(std::uint32_t) const override { return {{7, "eth7"}}; }
  std::vector<QpView> qps(std::uint32_t) const override { return connected; }
  std::vector<QpView> connected;
};

using Datagrams = std::vector<std::vector<std::uint8_t>>;

struct RdmaNetlink : testing::Test {
  OneNic source;

  Datagrams ask(int command, int flags, const std::map<int, std::uint32_t>& attributes = {},
                int client = RDMA_NL_NLDEV) {
    const nlmsghdr header{.nlmsg_len = 0,
                          .nlmsg_type = static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(client, command)),
                          .nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags),
                          .nlmsg_seq = kSequence,
                          .nlmsg_pid = 0};
    NetlinkMessage message(header);
    for (const auto& [type, value] : attributes) message.put_u32(type, value);
    return answer_netlink(source, message.finish(), kOurPort);
  }
  static nlmsghdr header(const std::vector<std::uint8_t>& message) {
    nlmsghdr header;
    std::memcpy(&header, message.data(), sizeof header);
    EXPECT_EQ(header.nlmsg_len, message.size());
    EXPECT_EQ(header.nlmsg_seq, kSequence);
    EXPECT_EQ(header.nlmsg_pid, kOurPort);
    return header;
  }
  /// The error number in the last message; 0 for an acknowledgement.
  static int error_of(const Datagrams& answer) {
    EXPECT_EQ(header(answer.back()).nlmsg_type, NLMSG_ERROR);
    std::int32_t error = 0;
    std::memcpy(&error, answer.back().data() + NLMSG_HDRLEN, sizeof error);
    return -error;
  }
  /// The first attribute of this type, at the top level.
  static std::string attribute(const std::vector<std::uint8_t>& message, int type) {
    for (std::size_t at = NLMSG_HDRLEN; at + NLA_HDRLEN <= message.size();) {
      nlattr attribute;
      std::memcpy(&attribute, message.data() + at, sizeof attribute);
      if (attribute.nla_len < NLA_HDRLEN) break;  // Not an attribute: the number in DONE.
      const auto* const value = reinterpret_cast<const char*>(message.data() + at + NLA_HDRLEN);
      if ((attribute.nla_type & NLA_TYPE_MASK) == type) return {value, attribute.nla_len - std::size_t{NLA_HDRLEN}};
      at += NLA_ALIGN(attribute.nla_len);
    }
    return "none";
  }
};

TEST_F(RdmaNetlink, ADumpOfDevicesEndsWithDone) {
  const Datagrams answer = ask(RDMA_NLDEV_CMD_GET, NLM_F_DUMP | NLM_F_ACK);
  ASSERT_EQ(answer.size(), 2u);
  EXPECT_EQ(header(answer[0]).nlmsg_type, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET));
  EXPECT_EQ(header(answer[0]).nlmsg_flags, NLM_F_MULTI);
  EXPECT_EQ(attribute(answer[0], RDMA_NLDEV_ATTR_DEV_NAME), "uroce0\0"s);
  EXPECT_EQ(attribute(answer[0], RDMA_NLDEV_ATTR_PORT_INDEX), std::string("\1\0\0\0", 4));
  EXPECT_EQ(attribute(answer[0], RDMA_NLDEV_ATTR_NODE_GUID), std::string("\x09\0\0\xfe\xff\x7f\0\x02", 8));
  EXPECT_EQ(header(answer[1]).nlmsg_type, NLMSG_DONE);
}

TEST_F(RdmaNetlink, APortHasItsInterface) {
  const Datagrams answer =
      ask(RDMA_NLDEV_CMD_PORT_GET, NLM_F_ACK, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}, {RDMA_NLDEV_ATTR_PORT_INDEX, 1}});
  ASSERT_EQ(answer.size(), 2u);
  EXPECT_EQ(header(answer[0]).nlmsg_flags, 0);
  EXPECT_EQ(attribute(answer[0], RDMA_NLDEV_ATTR_NDEV_NAME), "eth7\0"s);
  EXPECT_EQ(attribute(answer[0], RDMA_NLDEV_ATTR_NDEV_INDEX), std::string("\7\0\0\0", 4));
  EXPECT_EQ(attribute(answer[0], RDMA_NLDEV_ATTR_PORT_STATE), "\4");
  EXPECT_EQ(error_of(answer), 0);
}

TEST_F(RdmaNetlink, ManyQpsComeInMessagesThatFitAPage) {
  for (std::uint32_t i = 1; i <= 1000; ++i) source.connected.push_back({.qpn = i, .pid = 1});
  const Datagrams answer = ask(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}});
  std::size_t entries = 0;
  for (const auto& message : answer) {
    EXPECT_LT(message.size(), 4096u);
    const std::string list = attribute(message, RDMA_NLDEV_ATTR_RES_QP);
    for (std::size_t at = 0; list != "none" && at + NLA_HDRLEN <= list.size(); ++entries) {
      nlattr entry;
      std::memcpy(&entry, list.data() + at, sizeof entry);
      at += NLA_ALIGN(entry.nla_len);
    }
  }
  EXPECT_EQ(entries, 1000u);
  EXPECT_EQ(header(answer.back()).nlmsg_type, NLMSG_DONE);
}

TEST_F(RdmaNetlink, RefusesWhatItDoesNotHave) {
  const std::map<int, std::uint32_t> device{{RDMA_NLDEV_ATTR_DEV_INDEX, 0}}, other{{RDMA_NLDEV_ATTR_DEV_INDEX, 1}};
  EXPECT_EQ(error_of(ask(RDMA_NLDEV_CMD_GET, 0, other)), ENODEV);
  EXPECT_EQ(error_of(ask(RDMA_NLDEV_CMD_GET, 0)), EINVAL) << "which?";
  EXPECT_EQ(error_of(ask(RDMA_NLDEV_CMD_PORT_GET, 0, device)), EINVAL) << "which port?";
  EXPECT_EQ(error_of(ask(RDMA_NLDEV_CMD_NEWLINK, NLM_F_ACK)), EOPNOTSUPP);
  EXPECT_EQ(error_of(ask(RDMA_NLDEV_CMD_RES_CQ_GET, NLM_F_DUMP, device)), EOPNOTSUPP);
  EXPECT_EQ(error_of(ask(RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_ACK)), ENODEV);
  EXPECT_EQ(error_of(ask(RDMA_NLDEV_CMD_GET, 0, device, RDMA_NL_LS)), EINVAL);
  EXPECT_EQ(ask(RDMA_NLDEV_CMD_GET, 0, device).size(), 1u) << "no acknowledgement was asked for";
}

TEST_F(RdmaNetlink, SurvivesNonsense) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::uint8_t> bytes(random() % 64);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    if (bytes.size() >= 8) {
      bytes[0] = static_cast<std::uint8_t>(bytes.size());
      bytes[1] = bytes[2] = bytes[3] = 0;
      bytes[4] = static_cast<std::uint8_t>(random() % 28);
      bytes[5] = RDMA_NL_NLDEV << 2;
      bytes[6] |= 1;
    }
    EXPECT_LE(answer_netlink(source, bytes, kOurPort).size(), 3u);
  }
}

}  // namespace
}  // namespace uroce::view
