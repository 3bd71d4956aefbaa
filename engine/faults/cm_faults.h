// SPDX-License-Identifier: Apache-2.0
// Which steps of connection management go wrong, and how many have. Steps are counted per process, from any thread.
#pragma once

#include <atomic>
#include <memory>

#include "engine/faults/spec.h"

namespace uroce::engine::faults {

class CmFaults {
 public:
  /// `injected`: how many there have been already.
  explicit CmFaults(const FaultSpec& spec, std::uint64_t injected = 0);
  /// Those of `before` that may still strike, which go on counting, and those of `more`, which begin; its seed does not
  /// count.
  CmFaults(const CmFaults& before, const FaultSpec& more);

  /// To be called at each step that a fault of `kind` can happen to: at rdma_resolve_addr, rdma_resolve_route and
  /// rdma_connect, when a request reaches a listener, when a connection is established. Counts it. Null: all is well.
  const CmFault* strike(CmFault::Kind kind);

  std::uint64_t injected() const { return injected_.load(std::memory_order_relaxed); }
  /// A sentence for each fault that has met too few steps to happen at all.
  std::vector<std::string> without_effect() const;

 private:
  struct Armed {
    explicit Armed(const CmFault& f) : fault(f) {}
    const CmFault fault;
    std::atomic<std::uint64_t> seen = 0;  ///< Steps that it could have happened to.
  };
  void arm(const FaultSpec& spec);

  const std::uint64_t seed_;
  std::vector<std::shared_ptr<Armed>> armed_;
  std::atomic<std::uint64_t> injected_ = 0;
};

}  // namespace uroce::engine::faults
