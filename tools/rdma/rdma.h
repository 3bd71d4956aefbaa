// SPDX-License-Identifier: Apache-2.0
// The steps of an RDMA program with many queue pairs, in the order in which a program takes them. Plain verbs, as in
// any textbook: nothing here knows which NIC is underneath.
//
//   open_device            choose a device, look at its port and its GID
//   init_resources         protection domain, completion queue (one for all QPs), memory region
//   create_qp_list         N reliable-connection QPs, each with its own send and receive queue
//   modify_qps_to_init     RESET -> INIT: port, P_Key, what peers may do
//   post_receive_on_all_qps   from INIT on receives can be posted: before the peer may send
//   (exchange metadata)    QP numbers, PSNs, GID, rkey and addresses, over TCP: control/control.h
//   modify_qps_to_rtr      INIT -> RTR: the peer's QPN and PSN, the path to it
//   modify_qps_to_rts      RTR -> RTS: own PSN, timeout and retries
//                          (instead of the last three: RDMA CM, connections.h)
//   post_send, post_receive, poll_completion   the work
//   cleanup, close_device  everything in reverse order
//
// A completion names its QP through wr_id, which holds the QP's index in the list and a sequence number.
// Every function throws Failure (kExitUsage) with one sentence when the device refuses.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct rdma_cm_id;
struct rdma_event_channel;

namespace uroce::tools {

/// Which NIC, which of its ports, which of its addresses.
struct DeviceChoice {
  std::string name;  ///< "" = the first one.
  std::uint8_t ib_port = 1;
  int gid_index = 1;
};

/// Everything that the program owns on the device.
struct RdmaResources {
  DeviceChoice choice;
  ibv_context* context = nullptr;
  ibv_device_attr device{};
  ibv_port_attr port{};
  ibv_gid gid{};
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;  ///< Only when completions are awaited instead of polled.
  ibv_cq* cq = nullptr;
  std::uint8_t* buffer = nullptr;
  std::size_t buffer_bytes = 0;
  ibv_mr* mr = nullptr;
  std::vector<ibv_qp*> qps;
  // With --cm only (connections.h):
  rdma_event_channel* cm_channel = nullptr;
  rdma_cm_id* cm_listener = nullptr;
  std::vector<rdma_cm_id*> cm_ids;                       ///< One per connected QP.
  std::size_t traced_sends = 0, traced_completions = 0;  ///< Told by --trace so far: it stops after a few.
  std::size_t cm_established = 0;                        ///< On a server: how many of them the client has confirmed.
};

/// Releases everything but the device, in reverse order of creation. Harmless on what is already (partly) released.
void cleanup(RdmaResources& resources);
/// Releases the device as well.
void close_device(RdmaResources& resources);

struct CloseDeleter {
  void operator()(RdmaResources* resources) const {
    close_device(*resources);
    delete resources;
  }
};
/// Resources that clean up after themselves, however the program ends.
using RdmaOwner = std::unique_ptr<RdmaResources, CloseDeleter>;

// --- Set-up (resources.cc) -------------------------------------------------------------------------------------------

/// Opens the device and reads its limits, its port and the chosen GID.
RdmaOwner open_device(const DeviceChoice& choice);

struct ResourceSizes {
  std::uint32_t completions = 0;  ///< Entries of the one completion queue.
  std::size_t buffer_bytes = 0;   ///< Memory that is registered, zeroed.
  bool events = false;            ///< With a completion channel to sleep on.
};
/// Protection domain, completion queue, and one memory region that local WRs and peers use.
void init_resources(RdmaResources& resources, const ResourceSizes& sizes);

// --- Queue pairs (queue_pairs.cc) ------------------------------------------------------------------------------------

struct QueueSizes {
  std::uint32_t send_wrs = 1, receive_wrs = 1;  ///< Per QP.
  std::uint32_t sges = 1;                       ///< Per WR.
  std::uint32_t inline_bytes = 0;
};
void create_qp_list(RdmaResources& resources, std::uint32_t count, const QueueSizes& sizes);

/// What one side tells the other about one of its QPs.
struct QpMetadata {
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;      ///< First PSN of this side's requests, 24 bits.
  std::uint32_t rkey = 0;     ///< Key of the memory region ...
  std::uint64_t address = 0;  ///< ... and where the part for this QP begins.
  friend bool operator==(const QpMetadata&, const QpMetadata&) = default;
};

/// What one side tells the other about all of them. QP i talks to the peer's QP i.
struct PeerMetadata {
  std::uint8_t gid[16] = {};
  std::uint16_t lid = 0;
  std::vector<QpMetadata> qps;
};

struct RtrAttributes {
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint8_t max_dest_rd_atomic = 1;  ///< READs and atomics that the peer may have outstanding here.
  std::uint8_t min_rnr_timer = 12;      ///< What an RNR NAK asks the peer to wait: 12 = 0.64 ms.
};

struct RtsAttributes {
  std::uint8_t timeout = 14;  ///< Local ACK timeout, 4.096 us * 2^n; 0 = never.
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;  ///< 7 = for ever.
  std::uint8_t max_rd_atomic = 1;
};

void modify_qps_to_init(RdmaResources& resources);
void modify_qps_to_rtr(RdmaResources& resources, const PeerMetadata& peer, const RtrAttributes& attributes);
/// `local` holds the PSNs that the peer was told.
void modify_qps_to_rts(RdmaResources& resources, const PeerMetadata& local, const RtsAttributes& attributes);

/// One line about the state of QP `index`, as the device tells it.
std::string describe_qp_state(const RdmaResources& resources, std::size_t index);
/// With --trace: the state of the QPs, the first few of a long list.
/// `before`: what traced_states() returned before a transition, to say what each was.
void print_qp_state(const RdmaResources& resources, std::span<const std::string> before = {});
/// The states of the QPs that print_qp_state() shows; nothing without --trace.
std::vector<std::string> traced_states(const RdmaResources& resources);

// --- Work (work_requests.cc) -----------------------------------------------------------------------------------------

/// wr_id: the QP's index, which queue, and a sequence number of 47 bits.
struct WorkId {
  std::size_t qp = 0;
  bool receive = false;
  std::uint64_t sequence = 0;

  static constexpr std::uint64_t kSequenceMask = (std::uint64_t{1} << 47) - 1;
  constexpr std::uint64_t encode() const {
    return (std::uint64_t{qp} << 48) | (std::uint64_t{receive} << 47) | (sequence & kSequenceMask);
  }
  static constexpr WorkId decode(std::uint64_t wr_id) {
    return {static_cast<std::size_t>(wr_id >> 48), ((wr_id >> 47) & 1) != 0, wr_id & kSequenceMask};
  }
};

void post_receive(RdmaResources& resources, std::size_t qp, std::uint64_t sequence, std::span<ibv_sge> buffer);

/// Posts `count` receives on every QP; `buffer_of(qp, sequence)` says where the data of each goes.
using BufferOf = std::function<std::span<ibv_sge>(std::size_t qp, std::uint64_t sequence)>;
void post_receive_on_all_qps(RdmaResources& resources, std::uint64_t count, const BufferOf& buffer_of);

struct SendRequest {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::uint64_t sequence = 0;
  std::span<ibv_sge> local;
  std::uint64_t remote_address = 0;  ///< WRITE, READ, atomics.
  std::uint32_t rkey = 0;
  std::uint32_t immediate = 0;    ///< As a number of this host.
  std::uint64_t compare_add = 0;  ///< Atomics.
  std::uint64_t swap = 0;
  bool inline_data = false;
};
/// Posts one signalled request on QP `qp`.
void post_send(RdmaResources& resources, std::size_t qp, const SendRequest& request);

/// A completion that has found its QP.
struct Completion {
  WorkId id;
  ibv_wc_status status = IBV_WC_SUCCESS;
  ibv_wc_opcode opcode = IBV_WC_SEND;
  std::uint32_t byte_len = 0;
  bool has_immediate = false;
  std::uint32_t immediate = 0;
};
/// Takes up to completions.size() completions from the completion queue; returns how many. Never waits.
std::size_t poll_completion(RdmaResources& resources, std::span<Completion> completions);

/// Asks for an event at the next completion. Poll once more before sleeping: one may have come in between.
void request_completion_event(RdmaResources& resources);
/// Takes in the event that made the channel's file descriptor readable.
void consume_completion_event(RdmaResources& resources);

}  // namespace uroce::tools
