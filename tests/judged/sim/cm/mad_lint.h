// SPDX-License-Identifier: Apache-2.0
// What a connection manager may send: each message that is repeated by a timer at most 16 times, and not too fast
// (IBTA Vol 1, 12.9.8; 15 retries, and times as RDMA CM has them).
#pragma once

#include <map>

#include "engine/sim/link.h"
#include "proto/cm/message.h"
#include "tests/judged/sim/cm/plan.h"

namespace uroce::simulator {

class MadLint {
 public:
  explicit MadLint(const CmPlan& plan) : plan_(plan) {}
  /// A living process sends this.
  void sent(engine::sim::NodeId node, const proto::cm::MessageView& message, Instant now);

 private:
  struct Key {
    engine::sim::NodeId node;
    proto::cm::Attribute attribute;
    std::uint32_t id;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Sends {
    std::uint32_t count = 0;
    Instant last{};
  };
  const CmPlan& plan_;
  std::map<Key, Sends> sends_;
};

}  // namespace uroce::simulator
