// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/story/icrcs.h"

namespace uroce::explain {

void Icrcs::tell(const Packet& packet, bool placed) {
  if (packet.icrc == Icrc::kNotCaptured) return;
  if (senders_.size() >= kMost && !senders_.contains(packet.source.raw)) return;
  Sender& sender = senders_[packet.source.raw];
  if (packet.icrc == Icrc::kRight) {
    ++sender.right;
    return;
  }
  ++sender.wrong;
  if (!placed) ++sender.unplaced;
}

bool Icrcs::is_never_right(const proto::Gid& address) const {
  const auto sender = senders_.find(address.raw);
  return sender != senders_.end() && sender->second.is_never_right();
}

std::vector<NeverRight> Icrcs::never_right() const {
  std::vector<NeverRight> all;
  for (const auto& [address, sender] : senders_) {
    if (sender.is_never_right()) all.push_back({{address}, sender.wrong, sender.unplaced});
  }
  return all;
}

}  // namespace uroce::explain
