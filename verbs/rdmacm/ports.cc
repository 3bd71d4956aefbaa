// SPDX-License-Identifier: Apache-2.0
#include "verbs/rdmacm/ports.h"

#include <algorithm>
#include <cerrno>

namespace uroce::rdmacm {
namespace {

/// Whether `binding` can be beside what `owners` has. `reuse`: if both may reuse the port, it can.
int check(const std::vector<Binding*>& owners, const Binding& binding, bool reuse) {
  for (const Binding* other : owners) {
    if (other == &binding || (reuse && other->reuse)) continue;
    if (binding.only_family && other->only_family && binding.address.family != other->address.family) continue;
    if (binding.address.is_any() || other->address.is_any()) return EADDRNOTAVAIL;
    if (binding.address.address == other->address.address) return EADDRINUSE;
  }
  return 0;
}

}  // namespace

int PortTable::bind(Binding& binding) {
  const std::uint16_t port = binding.address.port;
  if (port == 0) return bind_ephemeral(binding);
  if (port < config_.first_unprivileged && !config_.may_have_all()) return EACCES;
  if (const auto found = owners_.find(key(binding.space, port)); found != owners_.end()) {
    if (const int error = check(found->second, binding, binding.reuse)) return error;
  }
  add(binding);
  return 0;
}

int PortTable::bind_ephemeral(Binding& binding) {
  const std::uint32_t count = config_.last_ephemeral - config_.first_ephemeral + 1u;
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const auto start = static_cast<std::uint32_t>(random_ >> 33) % count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto port = static_cast<std::uint16_t>(config_.first_ephemeral + (start + i) % count);
    if (port == last_used_ || owners_.contains(key(binding.space, port))) continue;
    last_used_ = binding.address.port = port;
    add(binding);
    return 0;
  }
  return EADDRNOTAVAIL;
}

int PortTable::listen(Binding& binding) {
  if (!binding.reuse) return 0;
  if (const int error = check(owners_.at(key(binding.space, binding.address.port)), binding, /*reuse=*/false)) {
    return error;
  }
  binding.reuse = false;
  return 0;
}

void PortTable::add(Binding& binding) {
  owners_[key(binding.space, binding.address.port)].push_back(&binding);
  ++size_;
}

void PortTable::release(Binding& binding) {
  const auto found = owners_.find(key(binding.space, binding.address.port));
  if (binding.address.port == 0 || found == owners_.end()) return;
  size_ -= std::erase(found->second, &binding);
  if (found->second.empty()) owners_.erase(found);
}

}  // namespace uroce::rdmacm
