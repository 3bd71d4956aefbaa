// SPDX-License-Identifier: Apache-2.0
// Facts about an emulated NIC that no verb tells: for summaries, --json and diagnosis.
#pragma once

#include <infiniband/verbs.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/faults/injector.h"
#include "engine/port/port.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/nic/model/counters.h"

namespace uroce::ibv {

struct NicFacts {
  std::vector<std::string> addresses;  ///< Textual IP addresses, in GID order.
  engine::PortInfo port;
  engine::PortCounters port_counters;
  nic::Counters counters;
  engine::faults::FaultCounters faults;            ///< What UROCE_FAULTS has done.
  std::vector<std::string> faults_without_effect;  ///< A sentence for each that met too little to happen at all.
  std::string pcap;                                ///< File that the capture goes to, or empty.
  std::string pcap_error;                          ///< Why nothing goes there any more, or empty.
  std::optional<std::string> last_cause;           ///< A sentence: what broke the connection that broke last.
  std::uint64_t pcap_missed = 0;  ///< Packets that are not there: because of that, or for lack of memory.
};

/// Facts of the NIC behind `context`, or nothing when the context is not uroce's.
std::optional<NicFacts> nic_facts(struct ibv_context* context);

}  // namespace uroce::ibv
