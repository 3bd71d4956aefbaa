// SPDX-License-Identifier: Apache-2.0
// Runs an input of nic_commands.h against a victim.
#pragma once

#include "tests/judged/fuzz/nic_victim.h"

namespace uroce::fuzz {

class NicScript {
 public:
  explicit NicScript(Victim& victim) : victim_(victim) {}
  /// Runs the records that `in` holds, up to a number that keeps one run short.
  void run(Reader in);

 private:
  void step(std::uint8_t command, Bytes body);
  void packet(Reader in);
  void raw(Bytes body);
  void honest(const HonestSpec& spec);
  void answer(VictimQp& qp, const VictimQp::Request& request);
  void acknowledge(VictimQp& qp, Psn psn, std::uint8_t syndrome);
  void finish(std::uint8_t qp, std::vector<std::uint8_t> packet, const proto::Path& path, std::uint32_t icrc_error,
              std::uint16_t ip_id);
  void deliver(std::uint8_t qp, std::vector<std::uint8_t> packet, const proto::Path& path);

  struct Delivered {
    std::uint8_t qp;
    std::vector<std::uint8_t> packet;
    proto::Path path;
  };
  Victim& victim_;
  std::deque<Delivered> delivered_;  ///< Latest first.
};

}  // namespace uroce::fuzz
