// SPDX-License-Identifier: Apache-2.0
// One server and one client, from the greeting to the verdict. Both run the same steps; they differ in who chooses the
// workload and in which direction data flow.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/control/control.h"
#include "tools/rdma/rdma.h"
#include "tools/workload/initiator.h"
#include "tools/workload/target.h"
#include "tools/workload/workload.h"

namespace uroce::tools {

enum class Role { kServer, kClient };

struct SessionOptions {
  Role role = Role::kClient;
  Workload workload;        ///< The client's wish. On a server only the number of QPs counts: the most that it takes.
  bool mtu_chosen = false;  ///< Otherwise: the largest that both ports have active.
  RtsAttributes rts{14, 7, 7, 16};
  std::uint8_t min_rnr_timer = 12;
  std::uint64_t max_memory = std::uint64_t{1} << 30;  ///< Bytes of buffers per side.
  std::optional<std::uint64_t> seed;                  ///< What first PSNs follow from; none: they are random.
  bool events = false;                                ///< On this side, whatever the workload says.
  bool cm = false;                                    ///< Connect the QPs by RDMA CM.
  bool progress_line = false;                         ///< On stderr, on long runs.
  std::chrono::seconds stall_limit{30};  ///< Give up when outstanding work makes no progress for so long; 0 = never.
};

/// How a peer that vanished showed.
struct PeerLoss {
  std::uint64_t outstanding = 0;  ///< Our operations that were under way.
  bool probed = false;            ///< None were, so zero-length WRITEs asked the transport.
  std::string status;             ///< Its answer, e.g. "RETRY_EXC_ERR"; "" = none in time.
  double seconds = 0;             ///< From the end of the connection (or from the post) to that answer.
  double promised_seconds = 0;    ///< What timeout and retry_cnt promise at least; 0 = for ever.
};

/// What is to be reported about a session, filled as far as it got.
struct Outcome {
  std::string peer_address;
  std::optional<Workload> workload;
  std::vector<std::string> notes;  ///< What was adjusted, as sentences.
  std::optional<InitiatorStats> initiated;
  std::optional<TargetStats> received;
  Verification verification;  ///< Ours, of both halves.
  std::optional<Verdict> peer_verdict;
  std::optional<PeerLoss> peer_loss;
};

/// Runs a session on an open device; afterwards only the device is left in `resources`. Throws Failure, and has told
/// the peer by then.
void run_session(const SessionOptions& options, Control& control, RdmaResources& resources, Outcome& outcome);

}  // namespace uroce::tools
