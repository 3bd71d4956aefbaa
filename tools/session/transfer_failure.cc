// SPDX-License-Identifier: Apache-2.0
// What a transfer says when it ends badly: finds the cause behind the first failed completion, and lets the transport
// itself say that a vanished peer does not answer.
#include <fmt/core.h>

#include <cmath>

#include "tools/control/interrupt.h"
#include "tools/rdma/trace.h"
#include "tools/session/transfer.h"

namespace uroce::tools {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Marks the probes among the completions.
constexpr std::uint64_t kProbeSequence = WorkId::kSequenceMask;
/// How long to look for the real error behind flushed WRs, and for news of the peer behind an error.
constexpr auto kCauseSearch = 200ms;

double seconds_since(TimePoint start) { return std::chrono::duration<double>(steady_clock::now() - start).count(); }

}  // namespace

std::string status_name(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "SUCCESS";
    case IBV_WC_LOC_LEN_ERR:
      return "LOC_LEN_ERR";
    case IBV_WC_LOC_QP_OP_ERR:
      return "LOC_QP_OP_ERR";
    case IBV_WC_LOC_PROT_ERR:
      return "LOC_PROT_ERR";
    case IBV_WC_WR_FLUSH_ERR:
      return "WR_FLUSH_ERR";
    case IBV_WC_BAD_RESP_ERR:
      return "BAD_RESP_ERR";
    case IBV_WC_LOC_ACCESS_ERR:
      return "LOC_ACCESS_ERR";
    case IBV_WC_REM_INV_REQ_ERR:
      return "REM_INV_REQ_ERR";
    case IBV_WC_REM_ACCESS_ERR:
      return "REM_ACCESS_ERR";
    case IBV_WC_REM_OP_ERR:
      return "REM_OP_ERR";
    case IBV_WC_RETRY_EXC_ERR:
      return "RETRY_EXC_ERR";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "RNR_RETRY_EXC_ERR";
    case IBV_WC_FATAL_ERR:
      return "FATAL_ERR";
    case IBV_WC_GENERAL_ERR:
      return "GENERAL_ERR";
    default:
      return fmt::format("status {}", static_cast<int>(status));
  }
}

/// (retry_cnt + 1) attempts, each waiting for the local ACK timeout of 4.096 us * 2^timeout. IBTA Vol 1, 9.7.6.1.3 lets
/// a device take up to four times as long.
double Transfer::promised_seconds() const {
  if (options_.rts.timeout == 0) return 0;
  return (options_.rts.retry_cnt + 1) * 4.096e-6 * std::ldexp(1.0, options_.rts.timeout);
}

std::string Transfer::promise_text() const {
  return fmt::format("timeout {} and retry-cnt {} promise {:.2f} s", options_.rts.timeout, options_.rts.retry_cnt,
                     promised_seconds());
}

/// Reaps completions until one failed of its own (not flushed behind another one): true, and `error` holds it. False at
/// the deadline, or when `outstanding` requests have completed and nothing is left that could fail.
bool Transfer::await_error(Deadline deadline, std::uint64_t outstanding, Completion& error) {
  while (steady_clock::now() < deadline) {
    const std::size_t count = poll_completion(resources_, batch_);
    for (std::size_t i = 0; i < count; ++i) {
      if (batch_[i].status == IBV_WC_SUCCESS) {
        if (!batch_[i].id.receive && --outstanding == 0) return false;
      } else if (batch_[i].status != IBV_WC_WR_FLUSH_ERR) {
        error = batch_[i];
        return true;
      }
    }
    throw_if_interrupted();
  }
  return false;
}

void Transfer::fail_on(Completion completion) {
  if (completion.status == IBV_WC_WR_FLUSH_ERR) await_error(steady_clock::now() + kCauseSearch, UINT64_MAX, completion);
  const std::size_t qp = completion.id.qp;
  std::string what = fmt::format("receive {}", completion.id.sequence);
  double seconds = 0;
  if (!completion.id.receive && initiator_ != nullptr) {
    what = fmt::format("{} {}", op_name(op_at(outcome_.workload->mix, completion.id.sequence)), completion.id.sequence);
    seconds = seconds_since(initiator_->oldest_post(qp));
  }
  std::string sentence = fmt::format("QP {}: {} failed with {} ({})", qp, what, status_name(completion.status),
                                     ibv_wc_status_str(completion.status));
  if (completion.status == IBV_WC_RETRY_EXC_ERR) {
    sentence += fmt::format(" {:.2f} s after it was posted; {}", seconds, promise_text());
  }
  trace("{}", describe_qp_state(resources_, qp));
  // The peer's own words or its end explain more than our status.
  bool ended = false;
  try {
    ended = control_.ended_within(kCauseSearch);
  } catch (const Failure& peers_words) {
    throw Failure(kExitFailed, fmt::format("{}; {}", sentence, peers_words.what()));
  }
  if (ended) {
    outcome_.peer_loss = PeerLoss{initiator_ != nullptr ? initiator_->outstanding() : 0, false,
                                  status_name(completion.status), seconds, promised_seconds()};
    sentence =
        fmt::format("{} is gone (its {} connection ended); {}", control_.peer_role(), control_.network(), sentence);
  }
  throw Failure(kExitFailed, sentence);
}

/// A zero-length RDMA WRITE on every QP: touches nothing, needs no receive, and must be acknowledged.
void Transfer::post_probes() {
  for (std::size_t qp = 0; qp < resources_.qps.size(); ++qp) {
    SendRequest probe;
    probe.opcode = IBV_WR_RDMA_WRITE;
    probe.sequence = kProbeSequence;
    probe.remote_address = peer_.qps[qp].address;
    probe.rkey = peer_.qps[qp].rkey;
    post_send(resources_, qp, probe);
  }
  trace("zero-length RDMA WRITE posted on {} QPs: does the peer's NIC still answer?", resources_.qps.size());
}

void Transfer::on_peer_gone() {
  const TimePoint noticed = steady_clock::now();
  trace("the {} connection to {} has ended", control_.network(), control_.peer_role());
  PeerLoss loss;
  loss.promised_seconds = promised_seconds();
  loss.outstanding = initiator_ != nullptr ? initiator_->outstanding() : 0;
  std::string sentence = fmt::format("{} is gone (its {} connection ended)", control_.peer_role(), control_.network());
  if (options_.rts.timeout == 0) {
    outcome_.peer_loss = loss;
    throw Failure(kExitFailed, sentence + "; timeout 0 means that the transport waits for ever, so we don't ask it");
  }
  // Four times the promise is what IBTA allows; then the scheduler of a busy machine.
  const auto patience = std::chrono::duration<double>(4 * loss.promised_seconds + 2);
  const Deadline deadline = noticed + std::chrono::duration_cast<steady_clock::duration>(patience);
  std::string who = fmt::format("{} operations were outstanding", loss.outstanding);
  Completion error;
  bool failed = loss.outstanding > 0 && await_error(deadline, loss.outstanding, error);
  if (!failed) {
    // Nothing is under way that could fail: ask.
    loss.probed = true;
    who = fmt::format("zero-length RDMA WRITEs were sent as a probe on {} QPs", resources_.qps.size());
    post_probes();
    failed = await_error(deadline, resources_.qps.size(), error);
  }
  loss.seconds = seconds_since(noticed);
  if (failed) {
    loss.status = status_name(error.status);
    sentence += fmt::format("; {}, and QP {} ended with {} ({}) after {:.2f} s; {}", who, error.id.qp, loss.status,
                            ibv_wc_status_str(error.status), loss.seconds, promise_text());
  } else {
    sentence += fmt::format("; {}, and no error came within {:.2f} s although {}", who, loss.seconds, promise_text());
  }
  outcome_.peer_loss = loss;
  throw Failure(kExitFailed, sentence);
}

}  // namespace uroce::tools
