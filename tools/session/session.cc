// SPDX-License-Identifier: Apache-2.0
#include "tools/session/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <random>

#include "tools/control/reach.h"
#include "tools/rdma/trace.h"
#include "tools/session/connect_by_cm.h"
#include "tools/session/transfer.h"
#include "tools/workload/layout.h"

namespace uroce::tools {
namespace {

constexpr std::uint32_t mtu_bytes(ibv_mtu mtu) { return std::uint32_t{128} << mtu; }
constexpr ibv_mtu mtu_enum(std::uint32_t bytes) { return static_cast<ibv_mtu>(std::bit_width(bytes) - 8); }
static_assert(mtu_enum(256) == IBV_MTU_256 && mtu_enum(4096) == IBV_MTU_4096 && mtu_bytes(IBV_MTU_1024) == 1024);

std::uint8_t clamp_rd_atomic(int device_limit, std::uint8_t wanted) {
  return static_cast<std::uint8_t>(std::clamp<int>(wanted, 0, std::max(device_limit, 0)));
}

Hello describe_ourselves(const RdmaResources& r, const SessionOptions& options) {
  Hello hello;
  hello.qps = options.workload.qps;
  hello.max_queue_wrs = static_cast<std::uint32_t>(std::max(r.device.max_qp_wr, 0));
  hello.max_completions = static_cast<std::uint32_t>(std::max(r.device.max_cqe, 0));
  hello.max_sges = static_cast<std::uint32_t>(std::max(r.device.max_sge, 0));
  hello.active_mtu = mtu_bytes(r.port.active_mtu);
  hello.rd_atomic_target = clamp_rd_atomic(r.device.max_qp_rd_atom, options.rts.max_rd_atomic);
  hello.rd_atomic_initiator = clamp_rd_atomic(r.device.max_qp_init_rd_atom, options.rts.max_rd_atomic);
  hello.atomics = r.device.atomic_cap != IBV_ATOMIC_NONE ? 1 : 0;
  return hello;
}

/// The client chooses the number of QPs, up to what the server takes.
void check_qp_counts(bool client, std::uint32_t ours, std::uint32_t peers) {
  if (client && ours > peers) {
    throw Failure(kExitUsage, fmt::format("the server takes {} QPs at most and we want {}: pass a smaller --num-qp, or "
                                          "start the server with a larger one",
                                          peers, ours));
  }
  if (!client && peers > ours) {
    throw Failure(kExitUsage, fmt::format("the client wants {} QPs and we take {} at most: start the server with a "
                                          "larger --num-qp",
                                          peers, ours));
  }
}

/// The client's wish, cut down to what both devices and the memory allow.
Workload agree(const SessionOptions& options, const Hello& own, const Hello& peer, Outcome& outcome) {
  Workload w = options.workload;
  const std::uint32_t active_mtu = std::min(own.active_mtu, peer.active_mtu);
  if (!options.mtu_chosen) w.mtu = active_mtu;
  if (w.mtu > active_mtu) {
    throw Failure(kExitUsage,
                  fmt::format("path MTU {} is more than the active MTU of the ports, {}", w.mtu, active_mtu));
  }
  if (!any_op(w.mix, [](Op op) { return !is_atomic(op); })) w.size = 8;
  const std::uint32_t sges = std::min(own.max_sges, peer.max_sges);
  if (w.sges > sges) throw Failure(kExitUsage, fmt::format("{} SGEs are more than the devices' {}", w.sges, sges));
  if (any_op(w.mix, is_atomic) && (own.atomics == 0 || peer.atomics == 0)) {
    throw Failure(kExitUsage, fmt::format("--op {}: a device without atomics can't do that", mix_name(w.mix)));
  }
  const std::uint32_t wished = w.depth;
  Limits limits;
  limits.memory_bytes = options.max_memory;
  limits.queue_wrs = std::min(own.max_queue_wrs, peer.max_queue_wrs);
  limits.completions = std::min(own.max_completions, peer.max_completions);
  if (const auto error = fit(w, limits)) throw Failure(kExitUsage, *error);
  if (w.depth < wished && w.depth < w.iterations) {
    outcome.notes.push_back(fmt::format("depth reduced from {} to {}, so that {} QPs with messages of {} fit into {}",
                                        wished, w.depth, w.qps, size_text(w.size), size_text(limits.memory_bytes)));
  }
  return w;
}

/// A server refuses what would cost more than its own limits allow.
Workload accept_workload(Control& control, const SessionOptions& options, const Hello& own) {
  const auto workload = decode_workload(control.expect(MessageType::kWorkload));
  if (!workload) throw Failure(kExitUsage, "the client asks for a workload that we can't read");
  check_qp_counts(false, own.qps, workload->qps);
  const std::uint64_t memory = make_layout(*workload, {workload->bidirectional, true}).per_qp * workload->qps;
  if (memory > options.max_memory) {
    throw Failure(kExitUsage, fmt::format("the client's workload takes {} of memory here, more than --max-memory {}",
                                          size_text(memory), size_text(options.max_memory)));
  }
  return *workload;
}

/// Random first PSNs, as they should be: a packet of an earlier connection, or of a stranger, then hardly fits. With a
/// seed each side has its own, the same ones in every run.
std::function<std::uint32_t()> psn_source(const SessionOptions& options) {
  if (!options.seed) return [random = std::make_shared<std::random_device>()] { return (*random)(); };
  return [random = std::mt19937_64(*options.seed * 2 + (options.role == Role::kClient ? 1 : 0))]() mutable {
    return static_cast<std::uint32_t>(random());
  };
}

PeerMetadata describe_qps(const RdmaResources& r, std::uint64_t bytes_per_qp, const SessionOptions& options) {
  const auto random = psn_source(options);
  PeerMetadata metadata;
  std::copy_n(r.gid.raw, sizeof metadata.gid, metadata.gid);
  metadata.lid = r.port.lid;
  for (std::size_t i = 0; i < r.qps.size(); ++i) {
    QpMetadata qp;
    qp.qpn = r.qps[i]->qp_num;
    qp.psn = random() & 0xFFFFFF;
    qp.rkey = r.mr->rkey;
    qp.address = reinterpret_cast<std::uintptr_t>(r.buffer) + i * bytes_per_qp;
    metadata.qps.push_back(qp);
  }
  return metadata;
}

bool is_ipv4(const std::uint8_t* gid) {
  constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  return std::equal(std::begin(kMapped), std::end(kMapped), gid);
}

void check_gid_families(const PeerMetadata& local, const PeerMetadata& peer, const std::string& peer_role) {
  if (is_ipv4(local.gid) == is_ipv4(peer.gid)) return;
  throw Failure(kExitUsage,
                fmt::format("our GID is an {} address, that of {} an {} one: choose matching GID indexes",
                            is_ipv4(local.gid) ? "IPv4" : "IPv6", peer_role, is_ipv4(peer.gid) ? "IPv4" : "IPv6"));
}

QueueSizes queue_sizes(const Workload& w, Roles roles) {
  QueueSizes sizes;
  sizes.send_wrs = w.depth;
  sizes.receive_wrs = roles.targets && any_op(w.mix, uses_receive) ? w.receive_depth : 1;
  sizes.sges = w.sges;
  const bool data = any_op(w.mix, [](Op op) { return lands_in_receive(op) || is_write(op); });
  if (w.inline_data && data && roles.initiates)
    sizes.inline_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(w.size, UINT32_MAX));
  return sizes;
}

/// The steps of rdma.h, in their order.
void run_steps(const SessionOptions& options, Control& control, RdmaResources& r, Outcome& outcome) {
  const Hello own = describe_ourselves(r, options);
  const bool client = options.role == Role::kClient;
  const Hello peer_hello = exchange_hello(control, own, client ? kPatience : kGreetingPatience);
  check_qp_counts(client, own.qps, peer_hello.qps);

  Workload workload;
  if (client) {
    workload = agree(options, own, peer_hello, outcome);
    control.send(MessageType::kWorkload, encode(workload));
  } else {
    workload = accept_workload(control, options, own);
  }
  outcome.workload = workload;
  const Roles roles{client || workload.bidirectional, !client || workload.bidirectional};
  const Direction outward = client ? Direction::kClientToServer : Direction::kServerToClient;
  const std::uint64_t bytes_per_qp = make_layout(workload, roles).per_qp;

  init_resources(r, {static_cast<std::uint32_t>(completion_entries(workload)),
                     static_cast<std::size_t>(bytes_per_qp * workload.qps), workload.events || options.events});
  create_qp_list(r, workload.qps, queue_sizes(workload, roles));
  modify_qps_to_init(r);
  std::optional<Target> target;
  if (roles.targets) {
    target.emplace(r, workload, opposite(outward));
    target->prepare();
  }

  const PeerMetadata local = describe_qps(r, bytes_per_qp, options);
  const RtrAttributes rtr{mtu_enum(workload.mtu), own.rd_atomic_target, options.min_rnr_timer};
  RtsAttributes rts = options.rts;
  rts.max_rd_atomic = std::min(own.rd_atomic_initiator, peer_hello.rd_atomic_target);
  PeerMetadata peer;
  if (options.cm) {
    peer = client ? connect_by_cm(control, r, local, workload, {rtr, rts})
                  : accept_by_cm(control, r, local, workload, {rtr, rts});
  } else {
    peer = exchange_metadata(control, local);
    check_gid_families(local, peer, control.peer_role());
    check_gids_reach(local, peer, control, "pass --addr ");
    modify_qps_to_rtr(r, peer, rtr);
    modify_qps_to_rts(r, local, rts);
  }
  std::optional<Initiator> initiator;
  if (roles.initiates) initiator.emplace(r, workload, outward, peer);
  barrier(control);

  control.enter_transfer();
  Transfer transfer(options, control, r, peer, outcome, initiator ? &*initiator : nullptr, target ? &*target : nullptr);
  transfer.run();
  transfer.exchange_verdicts();
}

}  // namespace

void run_session(const SessionOptions& options, Control& control, RdmaResources& resources, Outcome& outcome) {
  outcome.peer_address = control.peer_address();
  try {
    run_steps(options, control, resources, outcome);
  } catch (const Failure& failure) {
    control.abort(failure.what());
    cleanup(resources);
    throw;
  }
  cleanup(resources);
}

}  // namespace uroce::tools
