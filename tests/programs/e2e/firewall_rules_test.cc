// SPDX-License-Identifier: Apache-2.0
// Which rules drop packets, in the words of nft and iptables-save.
#include "tools/uroce/firewall_rules.h"

#include <gtest/gtest.h>

#include <string>

namespace uroce::tools {
namespace {

/// As nft prints a table with a chain of one line.
std::string chain(const std::string& line) {
  return "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy accept;\n\t\t" +
         line + "\n\t}\n}\n";
}

TEST(FirewallRules, ARuleThatDrops) {
  for (const char* line :
       {"drop", "udp dport 4791 drop", "counter packets 0 bytes 0 drop", "reject", "reject with icmp port-unreachable",
        "udp dport vmap { 4791 : drop, 53 : accept }", "xt target \"REJECT\""}) {
    EXPECT_TRUE(has_rule_that_drops(chain(line))) << line;
  }
}

TEST(FirewallRules, APolicyThatDrops) {
  EXPECT_TRUE(has_rule_that_drops("\t\ttype filter hook input priority filter; policy drop;\n"));
  EXPECT_TRUE(has_rule_that_drops("*filter\n:INPUT DROP [0:0]\nCOMMIT\n"));
}

TEST(FirewallRules, OfIptables) {
  EXPECT_TRUE(has_rule_that_drops("-A INPUT -p udp -m udp --dport 4791 -j DROP\n"));
  EXPECT_TRUE(has_rule_that_drops("-A INPUT -j REJECT --reject-with icmp-port-unreachable\n"));
  EXPECT_TRUE(has_rule_that_drops("-A INPUT -j DROP"));
  EXPECT_FALSE(has_rule_that_drops("*filter\n:INPUT ACCEPT [0:0]\n:DROPLETS - [0:0]\n-A INPUT -j ACCEPT\nCOMMIT\n"));
}

TEST(FirewallRules, ANameIsNone) {
  for (const char* line : {"counter name dropped accept", "jump no-drop", "jump drop_log", "jump reject.log",
                           "counter name \"raindrop\"", "accept"}) {
    EXPECT_FALSE(has_rule_that_drops(chain(line))) << line;
  }
  EXPECT_FALSE(has_rule_that_drops("table inet f {\n\tcounter dropped {\n\t\tpackets 0 bytes 0\n\t}\n}\n"));
  EXPECT_FALSE(has_rule_that_drops(""));
}

TEST(FirewallRules, WhatPeopleWriteIntoThemIsNone) {
  for (const char* line : {"accept comment \"don't drop this\"", "log prefix \"DROP: \" accept"}) {
    EXPECT_FALSE(has_rule_that_drops(chain(line))) << line;
  }
  EXPECT_FALSE(has_rule_that_drops("-A INPUT -m comment --comment \"a \\\"drop\\\" or reject\" -j ACCEPT\n"));
  EXPECT_FALSE(
      has_rule_that_drops("-A INPUT -m comment --comment drop -j ACCEPT\n-A INPUT -j LOG --log-prefix DROP\n"));
  EXPECT_TRUE(has_rule_that_drops(chain("drop comment \"accept\"")));
  EXPECT_TRUE(has_rule_that_drops(chain("log prefix \"a\" drop")));
  EXPECT_TRUE(has_rule_that_drops("-A INPUT --comment \"unfinished\n-A INPUT -j DROP\n"));
  EXPECT_TRUE(has_rule_that_drops("-A INPUT -m comment --comment a -j DROP"));
}

}  // namespace
}  // namespace uroce::tools
