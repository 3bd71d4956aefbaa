// SPDX-License-Identifier: Apache-2.0
// Commands from CONNECT to DISCONNECT: they hand a connection on to the connection manager of its NIC.

#include "engine/os/os_clock.h"
#include "verbs/rdmacm/attributes.h"
#include "verbs/rdmacm/call.h"
#include "verbs/rdmacm/events.h"
#include "verbs/rdmacm/faults.h"
#include "verbs/rdmacm/route.h"

namespace uroce::rdmacm {
namespace {

/// IBTA's reasons that a program may give (Linux: enum ib_cm_rej_reason).
constexpr std::uint8_t kConsumerDefined = 28, kVendorOptionNotSupported = 35;

/// The program's bytes; nothing when there are more than `most`.
std::optional<cm::PrivateData> private_data(const std::uint8_t (&bytes)[RDMA_MAX_PRIVATE_DATA], std::size_t size,
                                            std::size_t most) {
  cm::PrivateData out;
  if (size > most) return std::nullopt;
  std::memcpy(out.bytes.data(), bytes, size);
  out.size = static_cast<std::uint8_t>(size);
  return out;
}

cm::ConnectionParams parameters(const rdma_ucm_conn_param& from, const rdma_ucm_ece& ece) {
  return {.qpn = from.qp_num,
          .responder_resources = from.responder_resources,
          .initiator_depth = from.initiator_depth,
          .flow_control = from.flow_control,
          .retry_count = from.retry_count,
          .rnr_retry_count = from.rnr_retry_count,
          .srq = from.srq,
          .ece = {.vendor_id = ece.vendor_id, .attr_mod = ece.attr_mod}};
}

cm::Endpoint endpoint(const SocketAddress& address) { return {.address = address.address, .port = address.port}; }

Result<cm::Id, int> request(const ibv::NicLock& lock, const Id& id, const rdma_ucm_connect& in) {
  const auto& param = in.conn_param;
  const auto data = private_data(param.private_data, param.private_data_len,
                                 is_datagram(id) ? cm::kSidrReqPrivateData : cm::kReqPrivateData);
  if (!data) return Err{EINVAL};
  const std::uint64_t service = service_id(id.space, id.destination.port);
  const cm::Endpoint local = endpoint(id.source.address), remote = endpoint(id.destination);
  const cm::PathInfo path = path_of(id);
  if (is_datagram(id)) {
    return lock.cm().sidr_request(
        {.service_id = service, .local = local, .remote = remote, .path = path, .private_data = *data},
        engine::os_now());
  }
  return lock.cm().connect({.transport = transport_of(id.qp_type),
                            .service_id = service,
                            .local = local,
                            .remote = remote,
                            .path = path,
                            .params = parameters(param, in.ece),
                            .private_data = *data},
                           engine::os_now());
}

int accept_connection(const ibv::NicLock& lock, const Id& id, const rdma_ucm_accept& in) {
  const Instant now = engine::os_now();
  const auto& param = in.conn_param;
  if (is_datagram(id)) {
    cm::SidrReply reply{.qpn = param.qp_num, .qkey = kUdpQkey};
    if (param.valid != 0) {
      const auto data = private_data(param.private_data, param.private_data_len, cm::kSidrRepPrivateData);
      if (!data) return EINVAL;
      reply.private_data = *data;
    }
    return lock.cm().sidr_reply(id.connection, reply, now);
  }
  if (param.valid == 0) {
    const int error = lock.cm().establish(id.connection, now);
    if (error == 0) faults::limit_life(lock.cm(), id.connection);
    return error;
  }
  const auto data = private_data(param.private_data, param.private_data_len, cm::kRepPrivateData);
  return data ? lock.cm().accept(id.connection, parameters(param, in.ece), *data, now) : EINVAL;
}

int reject_connection(const ibv::NicLock& lock, const Id& id, std::uint8_t reason, const cm::PrivateData& data) {
  if (is_datagram(id)) {
    return lock.cm().sidr_reply(id.connection, {.status = cm::SidrStatus::kReject, .private_data = data},
                                engine::os_now());
  }
  return lock.cm().reject(id.connection, static_cast<cm::RejectReason>(reason), data, engine::os_now());
}

}  // namespace

int connect(const Call& call) {
  const auto in = call.read<rdma_ucm_connect>();
  if (in.conn_param.valid == 0) return EINVAL;
  const auto found = call.find_with_nic(in.id);
  if (!found.ok()) return found.error();
  Id& id = **found;
  if (id.stage != Stage::kRouteResolved) return EINVAL;
  if (const auto end = faults::end_of_connect()) {
    id.stage = Stage::kConnecting;
    call.front.raise(id, end->event, end->status);
    return 0;
  }
  ibv::NicLock lock(*id.nic.adapter);
  if (!lock) return ENODEV;
  const auto connection = request(lock, id, in);
  if (!connection.ok()) return connection.error();
  id.connection = *connection;
  id.stage = Stage::kConnecting;
  call.front.expect(id, *id.nic.adapter, *connection);
  lock.posted_now();
  return 0;
}

int accept(const Call& call) {
  const auto in = call.read<rdma_ucm_accept>();
  const auto found = call.find_with_nic(in.id);
  if (!found.ok()) return found.error();
  Id& id = **found;
  if (id.stage != Stage::kConnecting || id.connection == 0) return EINVAL;
  id.nic.adapter->arrange_last_words();  // A server chooses its NIC once, and accepts for months.
  ibv::NicLock lock(*id.nic.adapter);
  if (!lock) return ENODEV;
  const int error = accept_connection(lock, id, in);
  if (error != 0) {
    reject_connection(lock, id, kConsumerDefined, {});
  } else if (in.conn_param.valid != 0) {
    const std::scoped_lock events(call.front.event_mutex());
    id.uid = in.uid;
  }
  lock.posted_now();
  return error;
}

int reject(const Call& call) {
  const auto in = call.read<rdma_ucm_reject>();
  const std::uint8_t reason = in.reason == 0 ? kConsumerDefined : in.reason;
  if (reason != kConsumerDefined && reason != kVendorOptionNotSupported) return EINVAL;
  const auto found = call.find_with_nic(in.id);
  if (!found.ok()) return found.error();
  const Id& id = **found;
  if (id.connection == 0) return EINVAL;
  const auto data = private_data(in.private_data, in.private_data_len,
                                 is_datagram(id) ? cm::kSidrRepPrivateData : cm::kRejPrivateData);
  if (!data) return EINVAL;
  ibv::NicLock lock(*id.nic.adapter);
  if (!lock) return ENODEV;
  const int error = reject_connection(lock, id, reason, *data);
  lock.posted_now();
  return error;
}

int disconnect(const Call& call) {
  const auto found = call.find_with_nic(call.read<rdma_ucm_disconnect>().id);
  if (!found.ok()) return found.error();
  const Id& id = **found;
  if (id.connection == 0) return id.stage == Stage::kListening || id.stage == Stage::kConnecting ? 0 : EINVAL;
  ibv::NicLock lock(*id.nic.adapter);
  if (!lock) return ENODEV;
  const int error = lock.cm().disconnect(id.connection, engine::os_now());
  lock.posted_now();
  return error;
}

int notify(const Call& call) {
  const auto in = call.read<rdma_ucm_notify>();
  const auto found = call.find(in.id);
  if (!found.ok()) return found.error();
  const Id& id = **found;
  if (id.connection == 0 || in.event != IBV_EVENT_COMM_EST) return EINVAL;
  ibv::NicLock lock(*id.nic.adapter);
  if (!lock) return ENODEV;
  const int error = lock.cm().notify_established(id.connection, engine::os_now());
  lock.posted();  // A fault may have limited the connection's life.
  return error;
}

int init_qp_attr(const Call& call) {
  const auto in = call.read<rdma_ucm_init_qp_attr>();
  if (call.out_size < sizeof(ib_uverbs_qp_attr)) return ENOSPC;
  if (in.qp_state > IBV_QPS_ERR) return EINVAL;
  const auto found = call.find_with_nic(in.id);
  if (!found.ok()) return found.error();
  const Id& id = **found;
  std::optional<cm::ConnectionInfo> info;
  if (id.connection != 0) {
    const ibv::NicLock lock(*id.nic.adapter);
    if (!lock) return ENODEV;
    info = lock.cm().query(id.connection);
    if (!info) return EINVAL;
  }
  ib_uverbs_qp_attr out{};
  if (const int error = fill_qp_attributes(id, info, in.qp_state, out)) return error;
  return answer(in.response, out);
}

}  // namespace uroce::rdmacm
