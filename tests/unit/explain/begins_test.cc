// SPDX-License-Identifier: Apache-2.0
// The captures of both ends of which one began later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/explain/retold.h"
#include "tests/unit/explain/rewritten.h"

namespace uroce::explain::test {
namespace {

using Frames = std::vector<std::pair<std::int64_t, Octets>>;

/// What the other end saw of these: 10.77.0.11's packets later, those to it sooner.
Frames seen_by_peer(Frames frames) {
  constexpr std::int64_t kWayNs = 50'000;
  for (auto& [time, frame] : frames) time += frame.at(14 + 15) == 11 ? kWayNs : -kWayNs;
  std::stable_sort(frames.begin(), frames.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return frames;
}

Octets without_first(Frames frames, std::ptrdiff_t count) {
  frames.erase(frames.begin(), frames.begin() + count);
  return pcap_of(std::move(frames));
}

/// Nothing was lost, and nothing overtaken: whatever one capture alone has.
TEST(Begins, WhatOneCaptureDidNotSeeWasNotLost) {
  for (const std::string capture :
       {"rxe/rc_send_64k_mtu1024", "rxe/rc_write_157pkt_mtu256", "rxe/rc_read_64k_mtu1024"}) {
    const Frames a = frames_of(capture), b = seen_by_peer(a);
    const Retold whole = retell({capture});
    const auto bytes = [](const Retold& retold) {
      return retold.story->connections().at(0)->to_right.numbers().acked_bytes;
    };
    for (std::ptrdiff_t missed = 1; missed + 5 < static_cast<std::ptrdiff_t>(a.size()); missed += 3) {
      for (const bool a_is_late : {true, false}) {
        const Retold retold =
            retell_files({without_first(a, a_is_late ? missed : 0), without_first(b, a_is_late ? 0 : missed)});
        EXPECT_EQ(retold.counts(), "") << capture << ' ' << missed << (a_is_late ? " of A" : " of B");
        EXPECT_EQ(retold.lines.size(), a.size()) << capture << ' ' << missed;
        EXPECT_EQ(bytes(retold), bytes(whole)) << capture << ' ' << missed << (a_is_late ? " of A" : " of B");
      }
    }
  }
}

/// What was lost before the other capture began is told by what was sent again, as in one capture.
TEST(Begins, ALossBeforeTheOtherCaptureIsToldByTheAnswers) {
  const std::string topic = "rxe/loss_send_middle";
  for (const std::set<std::size_t>& without : {std::set<std::size_t>{1, 2}, {1, 2, 3}, {1, 2, 3, 4, 5}}) {
    const Retold retold = retell_files({pcap(topic + ".atA"), pcap(topic + ".atB", {.without = without})});
    const bool began_before_the_loss = without.size() < 3;
    EXPECT_EQ(retold.noted("lost"), began_before_the_loss ? 1u : 0u) << without.size();
    EXPECT_EQ(retold.noted("nak_sequence"), 1u);
    EXPECT_EQ(retold.noted("overtook"), 0u);
  }
}

}  // namespace
}  // namespace uroce::explain::test
