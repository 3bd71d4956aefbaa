// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/environment.h"

#include <gtest/gtest.h>

#include "proto/address.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/host/address_watch.h"

namespace uroce::ibv {
namespace {

using proto::Gid;

AddressPlan plan(const char* devices, const char* addresses) {
  auto result = plan_addresses(devices, addresses);
  EXPECT_TRUE(result.ok()) << result.error();
  return result.ok() ? *result : AddressPlan{};
}

std::string refusal(const char* devices, const char* addresses) {
  auto result = plan_addresses(devices, addresses);
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : result.error();
}

TEST(Environment, WithoutAnythingThereIsOneAutomaticNic) { EXPECT_EQ(plan("", ""), AddressPlan{{}}); }

TEST(Environment, CommasSeparateAddressesSemicolonsSeparateNics) {
  Gid v6_loopback;
  v6_loopback.raw[15] = 1;
  EXPECT_EQ(plan("", "127.0.0.5,::1;127.0.0.6"),
            (AddressPlan{{Gid::from_v4(127, 0, 0, 5), v6_loopback}, {Gid::from_v4(127, 0, 0, 6)}}));
}

TEST(Environment, AnInterfaceStandsForItsAddresses) {
  const AddressPlan addresses = plan("", "lo");
  ASSERT_EQ(addresses.size(), 1u);
  EXPECT_EQ(addresses[0].at(0), Gid::from_v4(127, 0, 0, 1)) << "IPv4 comes first";
  for (const Gid& address : addresses[0]) EXPECT_EQ(interface_name(address), "lo");
  EXPECT_EQ(plan("", "127.0.0.7;lo").at(1), addresses[0]);
  EXPECT_NE(refusal("", "lo,127.0.0.1").find("127.0.0.1 twice"), std::string::npos);
  EXPECT_NE(refusal("", "eth99").find("neither an IPv4 or IPv6 address nor an interface"), std::string::npos);
}

TEST(Environment, NicsWithoutAddressAreAutomatic) {
  EXPECT_EQ(plan("3", "127.0.0.5"), (AddressPlan{{Gid::from_v4(127, 0, 0, 5)}, {}, {}}));
}

TEST(Environment, RefusesWhatMakesNoSense) {
  for (const char* devices : {"0", "-1", "65", "2x", " 2", "many", "99999999999"}) {
    EXPECT_NE(refusal(devices, "").find("UROCE_DEVICES"), std::string::npos) << devices;
  }
  for (const char* addresses : {"localhost", "127.0.0.1,", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "fe80::1",
                                "255.255.255.255", "1.2.3.4/8"}) {
    EXPECT_NE(refusal("", addresses).find("UROCE_ADDR"), std::string::npos) << addresses;
  }
  EXPECT_NE(refusal("", "fe80::1%lo").find("not a unicast IPv4 or global IPv6 address"), std::string::npos);
  for (const char* addresses : {"1.2.3.4/8", "[::1]", "1.2.3.4:4791", "127.0.0.5, ::1"}) {
    EXPECT_NE(refusal("", addresses).find("write an address alone"), std::string::npos) << addresses;
  }
  EXPECT_NE(refusal("1", "127.0.0.1;127.0.0.2").find("UROCE_ADDR"), std::string::npos);
}

TEST(Environment, BesideEachSeparatorIsAnAddress) {
  for (const char* addresses : {"127.0.0.5;", ";127.0.0.5", "127.0.0.5;;127.0.0.6", ";", ",", "127.0.0.5,",
                                "127.0.0.5,,127.0.0.6", "127.0.0.5,;127.0.0.6", "lo;"}) {
    EXPECT_NE(refusal("", addresses).find("no address beside a comma or a semicolon"), std::string::npos) << addresses;
  }
  EXPECT_NE(refusal("2", "127.0.0.5;").find("no address beside"), std::string::npos);
}

TEST(Environment, NoTwoNicsHaveOneAddress) {
  EXPECT_NE(refusal("", "127.0.0.5;127.0.0.5").find("127.0.0.5 twice"), std::string::npos);
  EXPECT_NE(refusal("", "::1,127.0.0.5,::1").find("::1 twice"), std::string::npos);
}

TEST(Environment, TellsWhatItIsToldOfItsVendor) {
  EXPECT_EQ(vendor_id("")->vendor, 0x027572u);
  EXPECT_EQ(vendor_id("")->part, 1u);
  EXPECT_EQ(vendor_id("0x02c9:4119")->vendor, 0x02c9u);
  EXPECT_EQ(vendor_id("0x02c9:4119")->part, 4119u);
  for (const char* value : {"1", "0x:1", "1:2:3", "one:2", "1:-2", ":", "1:0x100000000"}) {
    EXPECT_FALSE(vendor_id(value).ok()) << value;
  }
}

TEST(Environment, StrictIsOnOrOff) {
  EXPECT_FALSE(*strictness(""));
  EXPECT_TRUE(*strictness("on"));
  EXPECT_FALSE(strictness("very").ok());
}

TEST(Environment, LidsAreOnOrOff) {
  EXPECT_FALSE(*lids_wanted(""));
  EXPECT_FALSE(*lids_wanted("off"));
  EXPECT_TRUE(*lids_wanted("on"));
  EXPECT_FALSE(lids_wanted("1").ok());
}

TEST(Address, LidsAreTheEndOfTheAddress) {
  const auto own = proto::Gid::from_v4(127, 0, 1, 2);
  EXPECT_EQ(lid_of(own), 0x0102);
  EXPECT_EQ(address_of_lid(0xBFFF, own), proto::Gid::from_v4(127, 0, 0xBF, 0xFF));
  EXPECT_EQ(lid_of(proto::Gid::from_v4(10, 0, 0xC0, 0)), 0) << "multicast LIDs";
  EXPECT_EQ(lid_of(*proto::parse_gid("fd00::1")), 0);
}

TEST(Address, PathMtuFollowsTheInterface) {
  EXPECT_EQ(path_mtu_for(65536), 5);
  EXPECT_EQ(path_mtu_for(9000), 5);
  EXPECT_EQ(path_mtu_for(4200), 5);
  EXPECT_EQ(path_mtu_for(4096), 4);
  EXPECT_EQ(path_mtu_for(1500), 3);
  EXPECT_EQ(path_mtu_for(1280), 3);
  EXPECT_EQ(path_mtu_for(576), 1);
  EXPECT_EQ(path_mtu_for(100), 1);
}

TEST(Address, FindsTheMtuOfLoopbackAndNothingForForeignAddresses) {
  const auto mtu_of = [](const Gid& address) { return look_at({address})->mtu_max; };
  ASSERT_TRUE(mtu_of(Gid::from_v4(127, 0, 0, 1)).has_value());
  EXPECT_EQ(mtu_of(Gid::from_v4(127, 0, 0, 77)), mtu_of(Gid::from_v4(127, 0, 0, 1)));
  EXPECT_FALSE(mtu_of(Gid::from_v4(192, 0, 2, 1)).has_value());  // TEST-NET-1: nobody's (RFC 5737).
}

TEST(Address, GuidsAreLocalAndDiffer) {
  const auto a = guid_of(Gid::from_v4(127, 0, 0, 1));
  const auto b = guid_of(Gid::from_v4(127, 0, 0, 2));
  EXPECT_EQ(a[0] & 0x03, 0x02) << "locally administered, unicast";
  EXPECT_NE(a, b);
  EXPECT_TRUE(link_local_gid(a).is_link_local());
  EXPECT_NE(link_local_gid(a), link_local_gid(b));
}

TEST(Address, ALinkLocalGidTellsTheIpv4Address) {
  for (const Gid& address : {Gid::from_v4(127, 0, 0, 1), Gid::from_v4(192, 0, 2, 255)}) {
    EXPECT_EQ(address_of_link_local(link_local_gid(guid_of(address))), address);
  }
  for (std::uint8_t last = 0; last < 255; ++last) {
    Gid v6 = Gid{};
    v6.raw[0] = 0x20;
    v6.raw[15] = last;
    EXPECT_EQ(address_of_link_local(link_local_gid(guid_of(v6))), std::nullopt) << unsigned{last};
  }
  EXPECT_EQ(address_of_link_local(*proto::parse_gid("fe80::5054:ff:fe12:3456")), std::nullopt) << "an interface's";
  EXPECT_EQ(address_of_link_local(Gid::from_v4(127, 0, 0, 1)), std::nullopt);
}

TEST(Address, TheGidTableBeginsAsAsked) {
  const Gid v4 = Gid::from_v4(127, 0, 0, 1), v6 = *proto::parse_gid("::1"), link_local = link_local_gid(guid_of(v4));
  EXPECT_EQ(gid_table({v4, v6}, *first_gid_wanted("")), (std::vector{link_local, v4, v6}));
  EXPECT_EQ(gid_table({v4, v6}, *first_gid_wanted("address")), (std::vector{v4, v6, link_local}));
  EXPECT_EQ(main_address(gid_table({v4, v6}, FirstGid::kLinkLocal)), v4);
  EXPECT_EQ(main_address(gid_table({v4, v6}, FirstGid::kAddress)), v4);
  EXPECT_FALSE(first_gid_wanted("ipv4").ok());
}

}  // namespace
}  // namespace uroce::ibv
