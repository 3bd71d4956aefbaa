// SPDX-License-Identifier: Apache-2.0
#include "engine/faults/cm_faults.h"

#include "proto/base/mix.h"

namespace uroce::engine::faults {
namespace {

/// Whether the n-th step is one of those that chance hits: the same ones in every run.
bool is_hit(const CmFault& fault, std::uint64_t seed, std::uint64_t n) {
  if (fault.probability == 1) return true;
  const std::uint64_t drawn = mix(mix(mix(seed + 1) + static_cast<std::uint64_t>(fault.kind)) + n);
  return static_cast<double>(drawn >> 11) * 0x1.0p-53 < fault.probability;
}

const char* step_of(CmFault::Kind kind) {
  using Kind = CmFault::Kind;
  switch (kind) {
    case Kind::kAddressError:
      return "rdma_resolve_addr";
    case Kind::kRouteError:
      return "rdma_resolve_route";
    case Kind::kUnreachable:
    case Kind::kRejected:
      return "rdma_connect";
    case Kind::kReject:
      return "request to a listener";
    case Kind::kDisconnect:
      return "established connection";
  }
  return "";
}

}  // namespace

CmFaults::CmFaults(const FaultSpec& spec, std::uint64_t injected) : seed_(spec.seed), injected_(injected) { arm(spec); }

CmFaults::CmFaults(const CmFaults& before, const FaultSpec& more) : seed_(before.seed_), injected_(before.injected()) {
  for (const auto& one : before.armed_) {
    if (one->seen.load(std::memory_order_relaxed) < one->fault.which.last) armed_.push_back(one);
  }
  arm(more);
}

void CmFaults::arm(const FaultSpec& spec) {
  for (const CmFault& fault : spec.connections) armed_.push_back(std::make_shared<Armed>(fault));
}

const CmFault* CmFaults::strike(CmFault::Kind kind) {
  const CmFault* struck = nullptr;
  for (const auto& one : armed_) {
    if (one->fault.kind != kind) continue;
    const std::uint64_t n = one->seen.fetch_add(1, std::memory_order_relaxed) + 1;
    if (struck == nullptr && one->fault.which.includes(n) && is_hit(one->fault, seed_, n)) struck = &one->fault;
  }
  if (struck != nullptr) injected_.fetch_add(1, std::memory_order_relaxed);
  return struck;
}

std::vector<std::string> CmFaults::without_effect() const {
  std::vector<std::string> sentences;
  for (const auto& one : armed_) {
    const std::uint64_t seen = one->seen.load(std::memory_order_relaxed);
    if (seen >= one->fault.which.first) continue;
    const std::string met = seen == 0 ? "no" : "only " + std::to_string(seen);
    sentences.push_back(one->fault.text + " met " + met + ' ' + step_of(one->fault.kind) + " of this process");
  }
  return sentences;
}

}  // namespace uroce::engine::faults
