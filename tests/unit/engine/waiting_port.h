// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/port/port.h"

namespace uroce::test {

/// A port that does nothing but wait. Others are made of it.
class WaitingPort : public engine::Port {
 public:
  std::function<void()> during_wait = [] {};
  struct Doze {
    Instant earliest;
    Duration slack;
  };
  std::vector<Doze> dozes;
  std::vector<bool> masks;  ///< What mask_packets() was told.
  int wakes = 0;
  int exchanges = 0;
  std::optional<Instant> deadline;  ///< The last one that wait() was given.
  bool is_woken = false;            ///< What wait() returns.

  bool wait(std::optional<Instant> until) override {
    deadline = until;
    during_wait();
    return is_woken;
  }
  bool doze(Instant earliest, Duration slack) override {
    dozes.push_back({earliest, slack});
    return wait(earliest);
  }
  void wake() override { ++wakes; }
  std::uint16_t acquire_source_port(const proto::Gid&, std::uint16_t) override { return 0; }
  void release_source_port(const proto::Gid&, std::uint16_t) override {}
  MutBytes tx_frame() override { return {}; }
  void tx_commit(const proto::Transmit&) override {}
  void flush() override {}
  std::size_t exchange(engine::DatagramSink&, std::size_t) override {
    ++exchanges;
    return 0;
  }
  void mask_packets(bool masked) override { masks.push_back(masked); }
  void abandon_after_fork() override {}
  engine::PortInfo info() const override { return {}; }
  engine::PortCounters counters() const override { return {}; }
};

}  // namespace uroce::test
