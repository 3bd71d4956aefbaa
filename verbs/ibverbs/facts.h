// Facts about an emulated NIC that no verb tells: for summaries, --json and diagnosis.
#pragma once

#include <infiniband/verbs.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/faults/injector.h"
#include "engine/port.h"
#include "verbs/nic/counters.h"

namespace uroce::ibv {

struct NicFacts {
  std::vector<std::string> addresses;  ///< Textual IP addresses, in GID order.
  engine::PortInfo port;
  engine::PortCounters port_counters;
  nic::Counters counters;
  engine::faults::FaultCounters faults;            ///< What UROCE_FAULTS has done.
  std::vector<std::string> faults_without_effect;  ///< A sentence for each that met too few packets to happen at all.
  std::string pcap;                                ///< File that the capture goes to, or empty.
  std::string pcap_error;                          ///< Why nothing goes there any more, or empty.
  std::uint64_t pcap_missed = 0;                   ///< Packets that are not there because of that.
};

/// Facts of the NIC behind `context`, or nothing when the context is not uroce's.
std::optional<NicFacts> nic_facts(struct ibv_context* context);

/// Why the last verb that failed in this thread did so, as a sentence for people; empty when there is nothing to say
/// beyond errno. Verbs that succeed leave it alone, as they do errno.
std::string last_error();

}  // namespace uroce::ibv
