// SPDX-License-Identifier: Apache-2.0
// Counters that other processes of the user can read, as they can those of a kernel's NIC (published_memory.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/os/fd.h"
#include "proto/path.h"
#include "verbs/nic/model/counters.h"
#include "verbs/view/nic_view.h"

namespace uroce::ibv {

struct CounterSet {
  nic::Counters nic;
  view::WireCounters wire;
  std::uint64_t link_downed = 0;
  std::uint64_t ports_down = 0;  ///< NICs that a fault keeps down, whatever their interface does.
};

/// The name of NIC `index` for others. `addresses`: as configured, of which the first counts; empty = automatic.
std::string counters_name(std::uint32_t index, const std::vector<proto::Gid>& addresses);

class PublishedCounters {
 public:
  /// Readers see all NICs of one `name` as one. Null where there is no shared memory: then nothing is published.
  static std::unique_ptr<PublishedCounters> make(const std::string& name);
  ~PublishedCounters();
  PublishedCounters(const PublishedCounters&) = delete;
  PublishedCounters& operator=(const PublishedCounters&) = delete;

  void publish(const CounterSet& counters);

 private:
  PublishedCounters(engine::Fd memory, std::uint64_t* words) : memory_(std::move(memory)), words_(words) {}

  engine::Fd memory_;
  std::uint64_t* words_;
};

/// The sum of what all processes that we may look into have published under `name`. Looking takes milliseconds: the
/// answer may be view::kCounterLifespan old.
CounterSet sum_of_published(const std::string& name);

}  // namespace uroce::ibv
