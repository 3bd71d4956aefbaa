// SPDX-License-Identifier: Apache-2.0
// Resources on a device that only takes notes: what was posted, and to which QP. Inline verbs go through the context's
// operations, so a context with two of them is all that posting needs.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/rdma/rdma.h"
#include "tools/workload/layout.h"
#include "tools/workload/workload.h"

namespace uroce::tools {

struct PostedSend {
  WorkId id;
  ibv_send_wr wr{};  ///< Its pointers are stale.
  std::vector<ibv_sge> sges;
};
struct PostedReceive {
  WorkId id;
  std::vector<ibv_sge> sges;
};

class FakeVerbs {
 public:
  FakeVerbs(const Workload& workload, Roles roles) : memory_(make_layout(workload, roles).per_qp * workload.qps) {
    current_ = this;
    context_.ops.post_send = post_send;
    context_.ops.post_recv = post_recv;
    qps_.resize(workload.qps);
    mr_.lkey = 0x77;
    for (ibv_qp& qp : qps_) {
      qp.context = &context_;
      resources.qps.push_back(&qp);
      peer.qps.push_back({0x11, 0, 0x99, 0x10000});
    }
    resources.buffer = memory_.data();
    resources.buffer_bytes = memory_.size();
    resources.mr = &mr_;
  }

  RdmaResources resources;
  PeerMetadata peer;
  std::vector<PostedSend> sends;
  std::vector<PostedReceive> receives;

 private:
  static int post_send(ibv_qp*, ibv_send_wr* wr, ibv_send_wr**) {
    current_->sends.push_back({WorkId::decode(wr->wr_id), *wr, {wr->sg_list, wr->sg_list + wr->num_sge}});
    return 0;
  }
  static int post_recv(ibv_qp*, ibv_recv_wr* wr, ibv_recv_wr**) {
    current_->receives.push_back({WorkId::decode(wr->wr_id), {wr->sg_list, wr->sg_list + wr->num_sge}});
    return 0;
  }
  static inline FakeVerbs* current_ = nullptr;

  std::vector<std::uint8_t> memory_;
  std::vector<ibv_qp> qps_;
  ibv_context context_{};
  ibv_mr mr_{};
};

}  // namespace uroce::tools
