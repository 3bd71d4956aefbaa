// SPDX-License-Identifier: Apache-2.0
// What of a QP is the same in every run of a program, whatever numbers it was given. Faults on purpose go by it.
#pragma once

#include <cstdint>

#include "proto/psn.h"

namespace uroce::proto {

struct QpIdentity {
  std::uint32_t nth = 0;   ///< In the order in which the NIC's QPs were created, from 1.
  std::uint32_t life = 0;  ///< How often it has been in RESET since it was created.
  Psn first_sent{};        ///< In its requests, and so in the responses to them.
  Psn first_received{};    ///< In its peer's requests, and so in its own responses. Datagrams: means nothing.
  std::uint32_t mtu = 0;   ///< The path's, in bytes.

  friend bool operator==(const QpIdentity&, const QpIdentity&) = default;
};

}  // namespace uroce::proto
