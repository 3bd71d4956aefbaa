// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/words/output.h"

namespace uroce::explain {

bool Filter::takes(const Connection& connection) const {
  const auto has = [&](const Endpoint& endpoint) {
    return (!qpn || endpoint.qpn == *qpn) && (!peer || endpoint.gid == *peer);
  };
  // The QP of one end and the address of the other one are fine too.
  const bool qp_fits = !qpn || connection.left.qpn == *qpn || connection.right.qpn == *qpn;
  const bool peer_fits = !peer || connection.left.gid == *peer || connection.right.gid == *peer;
  return has(connection.left) || has(connection.right) || (qp_fits && peer_fits);
}

bool Filter::takes(const Connection* connection, const Packet& packet) const {
  if (connection != nullptr) return takes(*connection);
  const bool peer_fits = !peer || packet.source == *peer || packet.destination == *peer;
  return peer_fits && (!qpn || packet.dest_qp == *qpn || packet.source_qp == *qpn);
}

}  // namespace uroce::explain
