// SPDX-License-Identifier: Apache-2.0
// What the view of a NIC is made from.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/path.h"
#include "verbs/nic/model/counters.h"

namespace uroce::view {

/// What its port has counted, beside what the NIC has.
struct WireCounters {
  std::uint64_t sent_packets = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_packets = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t send_errors = 0;
  std::uint64_t receive_overruns = 0;
};

struct NicView {
  std::uint32_t index = 0;
  std::string name;        ///< "uroce0"
  std::string verbs_name;  ///< "uverbs0"
  std::string firmware;    ///< As ibv_query_device() has it.
  std::array<std::uint8_t, 8> guid{};
  std::vector<proto::Gid> gids;  ///< 0 is link-local.
  std::uint32_t port_capabilities = 0;
  std::uint16_t lid = 0;
  bool port_up = true;
  std::uint64_t link_downed = 0;  ///< How often the port went down.
  nic::Counters counters;
  WireCounters wire;
};

/// A network interface; number 0 and no name: none.
struct InterfaceView {
  std::uint32_t number = 0;
  std::string name;  ///< "lo"
};

/// A QP of some process.
struct QpView {
  std::uint32_t qpn = 0, dest_qpn = 0, rq_psn = 0, sq_psn = 0;  ///< PSNs as they were set last.
  std::uint8_t type = 0, state = 0;                             ///< ibv_qp_type, ibv_qp_state
  bool is_connected = false;                                    ///< RC or UC.
  std::uint32_t pid = 0;
};

/// Where the view gets its facts, each time that a file is opened.
class NicSource {
 public:
  virtual ~NicSource() = default;
  /// How many NICs there are: the same at each call.
  virtual std::uint32_t count() const = 0;
  /// As it is now; names and the number of GIDs are the same at each call. `index` < count().
  virtual NicView nic(std::uint32_t index) const = 0;
  /// Of each of its GIDs the interface that has its address, now: of the first one that of the NIC.
  virtual std::vector<InterfaceView> interfaces(std::uint32_t index) const = 0;
  /// Its QPs, of all processes that we may look into.
  virtual std::vector<QpView> qps(std::uint32_t /*index*/) const { return {}; }
};

}  // namespace uroce::view
