// SPDX-License-Identifier: Apache-2.0
#include "tools/rdma/connections.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/rdma/diagnosis.h"
#include "tools/rdma/failure.h"
#include "tools/rdma/steps.h"
#include "tools/rdma/trace.h"

namespace uroce::tools {
namespace {

constexpr int kResolveMilliseconds = 2000;
constexpr int kBacklog = 128;
/// Reasons of a REJ (IBTA Vol 1, 12.6.7.2).
constexpr int kInvalidServiceId = 8, kConsumerReject = 28;
constexpr std::size_t kRejectBytes = 148;

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

SocketAddress socket_address(const std::uint8_t* gid, std::uint16_t port) {
  SocketAddress address{};
  in6_addr ip{};
  std::copy_n(gid, sizeof ip.s6_addr, ip.s6_addr);
  if (IN6_IS_ADDR_LINKLOCAL(&ip)) {
    throw Failure(kExitUsage, "--cm needs a GID that is an IP address without a scope: pass another --gid-index");
  }
  if (IN6_IS_ADDR_V4MAPPED(&ip)) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(port);
    std::memcpy(&address.v4.sin_addr, gid + 12, 4);
  } else {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(port);
    address.v6.sin6_addr = ip;
  }
  return address;
}

/// Whether it is an IP address that needs no scope.
bool is_address(const ibv_gid& gid) {
  in6_addr ip{};
  std::copy_n(gid.raw, sizeof ip.s6_addr, ip.s6_addr);
  return !IN6_IS_ADDR_LINKLOCAL(&ip) && !IN6_IS_ADDR_UNSPECIFIED(&ip);
}

std::string address_text(const std::uint8_t* gid) {
  const SocketAddress address = socket_address(gid, 0);
  char text[INET6_ADDRSTRLEN] = "";
  if (address.any.sa_family == AF_INET) return inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof text);
  return inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof text);
}

/// refuse() after a function of librdmacm. Verbs that it has tried meanwhile may have failed without harm, so the
/// backend has nothing to say about this.
[[noreturn]] void refuse_cm(const std::string& what, int error) {
  throw Failure(kExitUsage, what + ": " + std::strerror(error));
}

/// An event that has been taken off the channel.
struct Event {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;
  PrivateData private_data;
};

Event next_event(RdmaResources& r, const AwaitReadable& wait) {
  wait(r.cm_channel->fd);
  rdma_cm_event* taken = nullptr;
  if (rdma_get_cm_event(r.cm_channel, &taken) != 0) refuse_cm("can't take an event of RDMA CM", errno);
  Event event{taken->event, taken->status, taken->id, {}};
  const auto& data = taken->param.conn;
  const auto* bytes = static_cast<const std::uint8_t*>(data.private_data);
  if (bytes != nullptr) event.private_data.assign(bytes, bytes + data.private_data_len);
  rdma_ack_cm_event(taken);
  trace("  {}, status {}", rdma_event_str(event.type), event.status);
  return event;
}

/// Why `event` came where another one was due.
std::string reason_of(const Event& event) {
  if (event.type == RDMA_CM_EVENT_REJECTED && event.status == kConsumerReject && !event.private_data.empty()) {
    std::string text(event.private_data.begin(), std::find(event.private_data.begin(), event.private_data.end(), 0));
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return "the server refused it: " + text;
  }
  if (event.type == RDMA_CM_EVENT_REJECTED) {
    return fmt::format("it was rejected with reason {}{}", event.status,
                       event.status == kInvalidServiceId ? ": nobody listens there any more" : "");
  }
  return fmt::format("{} ({})", rdma_event_str(event.type),
                     event.status < 0 ? std::strerror(-event.status) : std::to_string(event.status));
}

void expect_event(RdmaResources& r, rdma_cm_event_type type, std::size_t index, const AwaitReadable& wait,
                  Event* result = nullptr) {
  Event event = next_event(r, wait);
  if (event.type != type) {
    throw Failure(kExitUsage, fmt::format("can't connect QP {}: {}", index, reason_of(event)));
  }
  if (result != nullptr) *result = std::move(event);
}

void open_channel(RdmaResources& r) {
  if (r.cm_channel != nullptr) return;
  r.cm_channel = rdma_create_event_channel();
  if (r.cm_channel == nullptr) refuse_cm("RDMA CM is not available", errno);
}

rdma_cm_id* create_id(RdmaResources& r) {
  open_channel(r);
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(r.cm_channel, &id, nullptr, RDMA_PS_TCP) != 0) refuse_cm("can't create an RDMA CM id", errno);
  return id;
}

/// RDMA CM finds the device by the address. It must be the one that the QPs are on.
void check_device(const RdmaResources& r, const rdma_cm_id& id) {
  const std::string ours = ibv_get_device_name(r.context->device);
  const std::string found = id.verbs != nullptr ? ibv_get_device_name(id.verbs->device) : "no device";
  if (found != ours) {
    throw Failure(kExitUsage,
                  fmt::format("RDMA CM finds {} at {}, where {} was expected", found, address_text(r.gid.raw), ours));
  }
}

void modify(rdma_cm_id* id, ibv_qp* qp, std::size_t index, ibv_qp_attr& attr, int mask, ibv_qp_state to) {
  ibv_qp_attr from_cm{};
  from_cm.qp_state = to;
  int cm_mask = 0;
  if (rdma_init_qp_attr(id, &from_cm, &cm_mask) != 0) refuse_cm(fmt::format("no attributes for QP {}", index), errno);
  // Where to, and which numbers: from RDMA CM. The rest is the user's choice, as without it.
  attr.qp_state = to;
  attr.ah_attr = from_cm.ah_attr;
  attr.dest_qp_num = from_cm.dest_qp_num;
  attr.rq_psn = from_cm.rq_psn;
  attr.sq_psn = from_cm.sq_psn;
  if (const int error = ibv_modify_qp(qp, &attr, cm_mask | mask)) {
    refuse(fmt::format("can't bring QP {} to {}", index, to == IBV_QPS_RTR ? "RTR" : "RTS"), error);
  }
}

void modify_to_rts(RdmaResources& r, std::size_t index, rdma_cm_id* id, const CmAttributes& attributes) {
  ibv_qp_attr attr{};
  attr.path_mtu = attributes.rtr.mtu;
  attr.max_dest_rd_atomic = attributes.rtr.max_dest_rd_atomic;
  attr.min_rnr_timer = attributes.rtr.min_rnr_timer;
  trace_words("ibv_modify_qp: QP {}, INIT -> RTR -> RTS (where to: as RDMA CM says)",
              "ibv_modify_qp：QP {}，INIT -> RTR -> RTS（去向由 RDMA CM 给出）", index);
  modify(id, r.qps[index], index, attr, IBV_QP_PATH_MTU | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         IBV_QPS_RTR);
  attr = {};
  attr.timeout = attributes.rts.timeout;
  attr.retry_cnt = attributes.rts.retry_cnt;
  attr.rnr_retry = attributes.rts.rnr_retry;
  attr.max_rd_atomic = attributes.rts.max_rd_atomic;
  modify(id, r.qps[index], index, attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
         IBV_QPS_RTS);
}

rdma_conn_param parameters(const RdmaResources& r, std::size_t index, const CmAttributes& attributes,
                           const PrivateData& private_data) {
  rdma_conn_param p{};
  p.qp_num = r.qps[index]->qp_num;
  p.private_data = private_data.data();
  p.private_data_len = static_cast<std::uint8_t>(private_data.size());
  p.responder_resources = attributes.rtr.max_dest_rd_atomic;
  p.initiator_depth = attributes.rts.max_rd_atomic;
  p.retry_count = attributes.rts.retry_cnt;
  p.rnr_retry_count = attributes.rts.rnr_retry;
  return p;
}

}  // namespace

std::string device_address(const RdmaResources& r) { return address_text(r.gid.raw); }

void choose_address(RdmaResources& r, const std::string& address) {
  if (address == "::" || address == "0.0.0.0") return;
  std::string usable;
  for (int i = 0; i < r.port.gid_tbl_len; ++i) {
    ibv_gid gid{};
    if (ibv_query_gid(r.context, r.choice.ib_port, i, &gid) != 0 || !is_address(gid)) continue;
    const std::string text = address_text(gid.raw);
    usable += (usable.empty() ? "" : ", ") + text;
    if (text != address) continue;
    r.gid = gid;
    r.choice.gid_index = i;
    return;
  }
  throw Failure(kExitUsage, fmt::format("{} has no address {}, only {}; give it to --addr, or one of these to --bind",
                                        ibv_get_device_name(r.context->device), address, usable));
}

CmAddress listen_for_qps(RdmaResources& r) {
  r.cm_listener = create_id(r);
  SocketAddress address = socket_address(r.gid.raw, 0);
  if (rdma_bind_addr(r.cm_listener, &address.any) != 0) {
    refuse_cm(fmt::format("RDMA CM can't use {}", device_address(r)), errno);
  }
  check_device(r, *r.cm_listener);
  if (rdma_listen(r.cm_listener, kBacklog) != 0) refuse_cm("can't listen for QPs", errno);
  CmAddress result;
  std::copy_n(r.gid.raw, sizeof result.gid, result.gid);
  result.port = ntohs(rdma_get_src_port(r.cm_listener));
  trace_words("rdma_listen: for {} QPs, at {} port {}", "rdma_listen：等待 {} 个 QP，地址 {}，端口 {}", r.qps.size(),
              device_address(r), result.port);
  return result;
}

CmRequest await_request(RdmaResources& r, const AwaitReadable& wait) {
  while (true) {
    Event event = next_event(r, wait);
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return {event.id, std::move(event.private_data)};
    if (event.type == RDMA_CM_EVENT_ESTABLISHED) {
      ++r.cm_established;
    } else {
      throw Failure(kExitUsage, "a QP was not connected: " + reason_of(event));
    }
  }
}

void accept_qp(RdmaResources& r, std::size_t index, const CmRequest& request, const CmAttributes& attributes,
               const PrivateData& private_data) {
  r.cm_ids.push_back(request.id);
  modify_to_rts(r, index, request.id, attributes);
  rdma_conn_param p = parameters(r, index, attributes, private_data);
  if (rdma_accept(request.id, &p) != 0) refuse_cm(fmt::format("can't accept QP {}", index), errno);
  trace("rdma_accept: QP {} (qpn {:#x})", index, r.qps[index]->qp_num);
}

void refuse_qp(const CmRequest& request, const std::string& sentence) {
  const std::string text = sentence.substr(0, kRejectBytes - 1);
  rdma_reject(request.id, text.c_str(), static_cast<std::uint8_t>(text.size() + 1));
  rdma_destroy_id(request.id);
}

void await_established(RdmaResources& r, const AwaitReadable& wait) {
  while (r.cm_established < r.qps.size()) {
    const Event event = next_event(r, wait);
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      refuse_qp({event.id, event.private_data}, "all QPs of this session are connected");
    } else if (event.type == RDMA_CM_EVENT_ESTABLISHED) {
      ++r.cm_established;
    } else {
      throw Failure(kExitUsage, fmt::format("can't connect QP {}: {}", r.cm_established, reason_of(event)));
    }
  }
  trace_words("all {} QPs are connected", "全部 {} 个 QP 均已连接", r.qps.size());
  print_qp_state(r);
}

PrivateData connect_qp(RdmaResources& r, std::size_t index, const CmAddress& server, const CmAttributes& attributes,
                       const PrivateData& private_data, const AwaitReadable& wait) {
  rdma_cm_id* id = create_id(r);
  r.cm_ids.push_back(id);
  SocketAddress own = socket_address(r.gid.raw, 0);
  SocketAddress peer = socket_address(server.gid, server.port);
  if (rdma_resolve_addr(id, &own.any, &peer.any, kResolveMilliseconds) != 0) {
    refuse_cm(fmt::format("RDMA CM can't resolve {}", address_text(server.gid)), errno);
  }
  expect_event(r, RDMA_CM_EVENT_ADDR_RESOLVED, index, wait);
  check_device(r, *id);
  if (rdma_resolve_route(id, kResolveMilliseconds) != 0) refuse_cm("RDMA CM can't resolve the route", errno);
  expect_event(r, RDMA_CM_EVENT_ROUTE_RESOLVED, index, wait);
  rdma_conn_param p = parameters(r, index, attributes, private_data);
  if (rdma_connect(id, &p) != 0) refuse_cm(fmt::format("can't connect QP {}", index), errno);
  trace("rdma_connect: QP {} (qpn {:#x})", index, r.qps[index]->qp_num);
  Event response;
  expect_event(r, RDMA_CM_EVENT_CONNECT_RESPONSE, index, wait, &response);
  modify_to_rts(r, index, id, attributes);
  if (rdma_establish(id) != 0) refuse_cm(fmt::format("can't complete the connection of QP {}", index), errno);
  return std::move(response.private_data);
}

void disconnect_qps(RdmaResources& r) {
  for (rdma_cm_id* id : r.cm_ids) rdma_disconnect(id);
  for (rdma_cm_id* id : r.cm_ids) rdma_destroy_id(id);
  if (!r.cm_ids.empty()) trace_words("rdma_disconnect: {} QPs", "rdma_disconnect：{} 个 QP", r.cm_ids.size());
  r.cm_ids.clear();
  r.cm_established = 0;
  if (r.cm_listener != nullptr) rdma_destroy_id(r.cm_listener);
  if (r.cm_channel != nullptr) rdma_destroy_event_channel(r.cm_channel);
  r.cm_listener = nullptr;
  r.cm_channel = nullptr;
}

}  // namespace uroce::tools
