// SPDX-License-Identifier: Apache-2.0
// What engine/ can drive: anything that turns packets and time into packets and a deadline. The four calls are the
// whole contract between a NIC and the outside; the same object runs over io_uring and inside the simulator. A NIC may
// have answer_first() as well (verbs/nic/device/nic.h), for an order of packets that an engine prefers.
#pragma once

#include <concepts>
#include <optional>

#include "proto/base/clock.h"
#include "proto/path.h"

namespace uroce::engine {

template <class N>
concept SansIoNic = requires(N& nic, const N& view, const proto::Datagram& datagram, Instant now, MutBytes frame) {
  { nic.on_datagram(datagram, now) } -> std::same_as<void>;
  { nic.on_timeout(now) } -> std::same_as<void>;  // harmless when early or repeated
  { nic.poll_transmit(now, frame) } -> std::same_as<std::optional<proto::Transmit>>;
  { view.next_deadline() } -> std::same_as<std::optional<Instant>>;
};

}  // namespace uroce::engine
