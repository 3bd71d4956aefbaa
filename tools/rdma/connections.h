// SPDX-License-Identifier: Apache-2.0
// RDMA CM instead of metadata over TCP (--cm): the steps between INIT and RTS then are
//
//   server                              client
//     listen_for_qps                      connect_qp, for each QP: REQ ...
//     await_request                         (waits for the answer)
//     accept_qp, for each QP: REP           ... INIT -> RTR -> RTS, RTU
//     await_established
//
// and disconnect_qps in the end. The queue pairs are those of create_qp_list(): RDMA CM only knows their numbers,
// carries a few bytes for each (private data), and says how to get to RTR and RTS (rdma_init_qp_attr). Every function
// throws Failure with one sentence.
#pragma once

#include <functional>
#include <string>

#include "tools/rdma/rdma.h"

namespace uroce::tools {

using PrivateData = std::vector<std::uint8_t>;

/// Waits until the descriptor is readable, or throws.
using AwaitReadable = std::function<void(int fd)>;

/// Where a server listens for its client's QPs.
struct CmAddress {
  std::uint8_t gid[16] = {};
  std::uint16_t port = 0;
};

/// What a QP needs besides what RDMA CM tells.
struct CmAttributes {
  RtrAttributes rtr;
  RtsAttributes rts;
};

/// A client's wish to connect a QP, not yet answered.
struct CmRequest {
  rdma_cm_id* id = nullptr;
  PrivateData private_data;
};

/// The IP address that the device has at the chosen GID, as text.
std::string device_address(const RdmaResources& resources);

/// Chooses the GID of `address`, a textual one; "::" and "0.0.0.0", all addresses, choose nothing.
void choose_address(RdmaResources& resources, const std::string& address);

/// Listens on a port that RDMA CM chooses, at the chosen GID.
CmAddress listen_for_qps(RdmaResources& resources);
CmRequest await_request(RdmaResources& resources, const AwaitReadable& wait);
/// Brings QP `index` to RTS, and answers with `private_data`.
void accept_qp(RdmaResources& resources, std::size_t index, const CmRequest& request, const CmAttributes& attributes,
               const PrivateData& private_data);
/// The client learns `sentence`.
void refuse_qp(const CmRequest& request, const std::string& sentence);
/// Waits until the client is ready to send on all QPs.
void await_established(RdmaResources& resources, const AwaitReadable& wait);

/// Connects QP `index`, brings it to RTS, and returns the server's private data.
PrivateData connect_qp(RdmaResources& resources, std::size_t index, const CmAddress& server,
                       const CmAttributes& attributes, const PrivateData& private_data, const AwaitReadable& wait);

/// Disconnects and destroys all of it. Harmless if there is nothing.
void disconnect_qps(RdmaResources& resources);

}  // namespace uroce::tools
