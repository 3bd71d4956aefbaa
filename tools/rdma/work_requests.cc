// SPDX-License-Identifier: Apache-2.0
// Posting work and reaping completions.
#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tools/rdma/failure.h"
#include "tools/rdma/rdma.h"
#include "tools/rdma/steps.h"
#include "tools/rdma/trace.h"

namespace uroce::tools {
namespace {

/// So many sends and completions are told one by one: enough to see the pattern, and no cost for the rest.
constexpr std::size_t kTracedWork = 8;

const char* name_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
      return "SEND";
    case IBV_WR_SEND_WITH_IMM:
      return "SEND with immediate";
    case IBV_WR_RDMA_WRITE:
      return "WRITE";
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return "WRITE with immediate";
    case IBV_WR_RDMA_READ:
      return "READ";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return "compare and swap";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return "fetch and add";
    default:
      return "request";
  }
}

void trace_send(RdmaResources& r, std::size_t qp, const ibv_send_wr& wr) {
  if (r.traced_sends >= kTracedWork) return;
  if (r.traced_sends == 0) trace_step(Step::kSends);
  std::size_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  trace("    QP {}: {}, wr_id {:#x}, {} bytes{}", qp, name_of(wr.opcode), wr.wr_id, bytes,
        ++r.traced_sends == kTracedWork ? " (further ones are not listed)" : "");
}

void trace_completion(RdmaResources& r, std::size_t qp, const ibv_wc& wc) {
  if (r.traced_completions >= kTracedWork) return;
  if (r.traced_completions == 0) trace_step(Step::kCompletions);
  // Only receives and READs tell how many bytes came; and failed work tells neither bytes nor operation.
  const bool receive = wc.status == IBV_WC_SUCCESS && (wc.opcode & IBV_WC_RECV) != 0;
  trace("    QP {}: {}, wr_id {:#x}, {}{}{}", qp, WorkId::decode(wc.wr_id).receive ? "receive" : "send", wc.wr_id,
        ibv_wc_status_str(wc.status), receive ? fmt::format(", {} bytes", wc.byte_len) : "",
        ++r.traced_completions == kTracedWork ? " (further ones are not listed)" : "");
}

}  // namespace

void post_receive(RdmaResources& r, std::size_t qp, std::uint64_t sequence, std::span<ibv_sge> buffer) {
  ibv_recv_wr wr{};
  wr.wr_id = WorkId{qp, true, sequence}.encode();
  wr.sg_list = buffer.data();
  wr.num_sge = static_cast<int>(buffer.size());
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(r.qps[qp], &wr, &bad)) {
    throw Failure(kExitFailed, fmt::format("can't post receive {} on QP {}: {}", sequence, qp, std::strerror(error)));
  }
}

void post_receive_on_all_qps(RdmaResources& r, std::uint64_t count, const BufferOf& buffer_of) {
  for (std::size_t qp = 0; qp < r.qps.size(); ++qp) {
    for (std::uint64_t sequence = 0; sequence < count; ++sequence) {
      post_receive(r, qp, sequence, buffer_of(qp, sequence));
    }
  }
  trace_step(Step::kReceives, count, r.qps.size());
}

void post_send(RdmaResources& r, std::size_t qp, const SendRequest& request) {
  ibv_send_wr wr{};
  wr.wr_id = WorkId{qp, false, request.sequence}.encode();
  wr.opcode = request.opcode;
  wr.sg_list = request.local.data();
  wr.num_sge = static_cast<int>(request.local.size());
  wr.send_flags = IBV_SEND_SIGNALED;
  if (request.inline_data) wr.send_flags |= IBV_SEND_INLINE;
  switch (request.opcode) {
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      wr.wr.atomic.remote_addr = request.remote_address;
      wr.wr.atomic.rkey = request.rkey;
      wr.wr.atomic.compare_add = request.compare_add;
      wr.wr.atomic.swap = request.swap;
      break;
    default:
      wr.wr.rdma.remote_addr = request.remote_address;
      wr.wr.rdma.rkey = request.rkey;
      wr.imm_data = htonl(request.immediate);
      break;
  }
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(r.qps[qp], &wr, &bad)) {
    throw Failure(kExitFailed,
                  fmt::format("can't post request {} on QP {}: {}", request.sequence, qp, std::strerror(error)));
  }
  if (g_trace) trace_send(r, qp, wr);
}

std::size_t poll_completion(RdmaResources& r, std::span<Completion> completions) {
  constexpr std::size_t kBatch = 32;
  std::array<ibv_wc, kBatch> wcs;
  const auto wanted = static_cast<int>(std::min(completions.size(), kBatch));
  const int count = ibv_poll_cq(r.cq, wanted, wcs.data());
  if (count < 0) throw Failure(kExitFailed, "can't poll the completion queue");
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const ibv_wc& wc = wcs[i];
    Completion& completion = completions[i];
    completion.id = WorkId::decode(wc.wr_id);
    if (completion.id.qp >= r.qps.size()) {
      throw Failure(kExitFailed, fmt::format("a completion names QP {}, which does not exist", completion.id.qp));
    }
    if (g_trace) trace_completion(r, completion.id.qp, wc);
    completion.status = wc.status;
    completion.opcode = wc.opcode;
    completion.byte_len = wc.byte_len;
    completion.has_immediate = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
    completion.immediate = completion.has_immediate ? ntohl(wc.imm_data) : 0;
  }
  return static_cast<std::size_t>(count);
}

void request_completion_event(RdmaResources& r) {
  if (const int error = ibv_req_notify_cq(r.cq, 0)) {
    throw Failure(kExitFailed, fmt::format("can't ask for a completion event: {}", std::strerror(error)));
  }
}

void consume_completion_event(RdmaResources& r) {
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  if (ibv_get_cq_event(r.channel, &cq, &cq_context) != 0) {
    throw Failure(kExitFailed, fmt::format("can't read a completion event: {}", std::strerror(errno)));
  }
  // Acknowledged at once: one lock more per event, and ibv_destroy_cq never has to wait for us.
  ibv_ack_cq_events(cq, 1);
}

}  // namespace uroce::tools
