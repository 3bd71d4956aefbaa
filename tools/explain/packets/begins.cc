// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/packets/begins.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_set>

#include "tools/explain/packets/twins.h"

namespace uroce::explain {
namespace {

/// The same each time that a tap sees a packet, or what is sent in its place.
using Sending = std::array<std::uint32_t, 5>;

Sending sending_of(const Packet& packet) {
  // Each message of the connection manager that is sent has a PSN of its own.
  if (packet.cm) {
    return {packet.tap, static_cast<std::uint32_t>(packet.cm->attribute), packet.cm->local_id, packet.cm->remote_id, 0};
  }
  return {packet.tap, static_cast<std::uint32_t>(packet.op->code), packet.dest_qp, packet.psn.value(), packet.content};
}

struct TapView {
  std::int64_t first_ns = 0;
  std::unordered_set<std::uint64_t> identities;
};

}  // namespace

std::set<std::uint32_t> taps_on_time(const std::vector<Packet>& packets) {
  std::map<std::uint32_t, TapView> taps;
  std::map<Sending, std::int64_t> last_sent;
  for (const Packet& packet : packets) {
    const auto tap = taps.try_emplace(packet.tap, TapView{packet.time_ns, {}}).first;
    tap->second.first_ns = std::min(tap->second.first_ns, packet.time_ns);
    tap->second.identities.insert(identity_of(packet));
    std::int64_t& last = last_sent.try_emplace(sending_of(packet), packet.time_ns).first->second;
    last = std::max(last, packet.time_ns);
  }
  std::set<std::uint32_t> on_time;
  for (const auto& [number, tap] : taps) {
    const auto was_missed = [&, own = number, &view = tap](const Packet& packet) {
      if (packet.tap == own || packet.time_ns >= view.first_ns) return false;
      if (view.identities.contains(identity_of(packet))) return false;
      return packet.is_response() || last_sent.at(sending_of(packet)) == packet.time_ns;
    };
    if (std::none_of(packets.begin(), packets.end(), was_missed)) on_time.insert(number);
  }
  return on_time;
}

}  // namespace uroce::explain
