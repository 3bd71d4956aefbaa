// SPDX-License-Identifier: Apache-2.0
// What a QP needs from the NIC that it lives in.
#pragma once

#include "verbs/nic/model/config.h"
#include "verbs/nic/model/event.h"
#include "verbs/nic/model/trace.h"
#include "verbs/nic/resources/mr_table.h"
#include "verbs/nic/transport/base/identifications.h"
#include "verbs/nic/transport/base/windows.h"

namespace uroce::nic {

class QpEnv {
 public:
  QpEnv(const NicConfig& nic_config, MrTable& nic_mrs, Counters& counters)
      : config(nic_config),
        mrs(nic_mrs),
        trace(counters, nic_config.trace),
        windows(nic_config),
        identifications(nic_config.peer_packet_time) {}
  virtual ~QpEnv() = default;

  /// Queues a completion and raises what follows from it (notification, overflow).
  virtual void complete(Cq& cq, const Completion& completion) = 0;
  virtual void raise(Event::Kind kind, Qp* qp) = 0;
  /// Fewer receives than the armed limit are left in `srq`.
  virtual void raise_limit_reached(Srq& srq) = 0;

  const NicConfig& config;
  MrTable& mrs;
  Trace trace;
  Windows windows;
  Identifications identifications;  ///< For the peers of connected QPs.
};

}  // namespace uroce::nic
