// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/scenario_wrap.h"

#include "tests/judged/sim/dice.h"

namespace uroce::simulator {

/// READs and atomics; as many packets as there are PSNs but for a few; READs and atomics under the PSNs of the first
/// ones. Answers are lost before and after, and nothing else, so that they are asked for again.
Scenario draw_wrap_scenario(std::uint64_t seed) {
  Dice dice(engine::sim::Random{seed}.split(0x3A9));
  Scenario scenario;
  scenario.seed = seed;
  scenario.max_events = 200'000'000;
  scenario.answer_loss = dice.pick({0.1, 0.2});
  scenario.network.faults_end = std::chrono::minutes{1};
  scenario.hosts.resize(2);
  ConnectionPlan connection;
  connection.mtu_code = 1;
  connection.message_max = 100'000;
  connection.mourning = std::chrono::milliseconds{1};
  connection.ends[1].host = 1;
  for (EndPlan& end : connection.ends) {
    end.max_send_wr = end.max_recv_wr = 32;
    end.receive_depth = 4;
    end.depth = dice.u32(8, 16);
    end.sq_psn = dice.u32(0, 0xFFFFFF);
    end.max_rd_atomic = end.max_dest_rd_atomic = dice.pick<std::uint8_t>({64, 128});
    end.timeout = 6;
    end.mix = {1, 0, 1, 0, 4, 1, 10, 10};
    end.ops = 5;
  }
  EndPlan& busy = connection.ends[0];
  busy.ops = dice.u32(800, 1200);
  busy.bulk_after = dice.u32(200, 400);
  busy.bulk_psns = (1u << 24) - dice.u32(20, 100);
  scenario.connections.push_back(connection);
  return scenario;
}

}  // namespace uroce::simulator
