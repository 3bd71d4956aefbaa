// The NIC: many QPs behind one port. Sans-I/O: calls, packets and `now` go in; packets, completions, events and the next
// deadline come out. Deterministic: the same calls in the same order give the same packets. Not thread-safe; whoever
// drives it (engine/runner.h, the simulator) serialises the calls.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/result.h"
#include "verbs/nic/counters.h"
#include "verbs/nic/cq.h"
#include "verbs/nic/limits.h"
#include "verbs/nic/mr_table.h"
#include "verbs/nic/qp_state.h"

namespace uroce::nic {

class Qp;  // verbs/transport/qp.h

struct NicConfig {
  std::vector<Gid> gids;         ///< GID table from index 0 on.
  std::uint8_t qpn_slot = 0;     ///< Top byte of every QPN: which of several NICs that share an address (design, 5).
  std::uint8_t mtu_max = 5;      ///< Path MTU enum, 1..5.
  std::uint64_t window_bytes = 160 * 1024;  ///< Receive-buffer bytes our unacknowledged packets may take at the peers.
  Duration ack_timeout_floor{};  ///< Local ACK timeouts shorter than this are raised to it (hardware does so too).
};

struct QpInit {
  Pd* pd = nullptr;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  std::uint32_t max_send_wr = 0, max_recv_wr = 0;
  std::uint32_t max_send_sge = 0, max_recv_sge = 0;
  std::uint32_t max_inline = 0;
  bool sq_sig_all = false;
  void* user = nullptr;
};

/// Something the NIC has to tell its owner, in order of occurrence.
struct Event {
  enum class Kind : std::uint8_t {
    kCqNotify,       ///< An armed CQ got a completion (completion channel).
    kCqErr,          ///< CQ overflow.
    kQpFatal,
    kQpReqErr,       ///< Invalid request at the responder.
    kQpAccessErr,    ///< Remote access error at the responder.
    kCommEst,        ///< First packet arrived in RTR.
    kSqDrained,
  };
  Kind kind;
  Cq* cq = nullptr;
  Qp* qp = nullptr;
};

class Nic {
 public:
  explicit Nic(NicConfig config);
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  // --- engine::SansIoNic -------------------------------------------------------------------------------------------
  /// Takes in one packet. Anything may be in it; what is not a valid packet for one of our QPs is counted and dropped.
  /// Afterwards: poll_transmit(), poll_event(), next_deadline().
  void on_datagram(const proto::Datagram& datagram, Instant now);
  /// Runs the timers that are due. Harmless when early or repeated. Afterwards: as on_datagram().
  void on_timeout(Instant now);
  /// Writes the next packet into `frame` (>= proto::kMaxPacketSize), round-robin over the QPs that have something to
  /// send; nothing when idle or window-limited. Poll again until it returns nothing, and after every other call.
  std::optional<proto::Transmit> poll_transmit(Instant now, MutBytes frame);
  /// The earliest timer, if any runs.
  std::optional<Instant> next_deadline() const;

  // --- control ------------------------------------------------------------------------------------------------------
  Pd* alloc_pd();
  Errno dealloc_pd(Pd* pd);  ///< EBUSY while anything is in it.
  MrTable& mrs() { return mrs_; }
  /// EINVAL: capacity 0 or above kMaxCqe.
  Result<Cq*, Errno> create_cq(std::uint32_t capacity, void* user);
  Errno destroy_cq(Cq* cq);  ///< EBUSY while a QP uses it.
  /// EINVAL: a capability above its limit.
  Result<Qp*, Errno> create_qp(const QpInit& init);
  /// EINVAL: illegal transition, missing, unexpected or out-of-range attribute. Nothing changes then.
  Errno modify_qp(Qp* qp, const QpAttr& attr, std::uint32_t mask, Instant now);
  void destroy_qp(Qp* qp);
  /// EINVAL: wrong state, opcode or SGE count, inline too long; ENOMEM: queue full.
  Errno post_send(Qp* qp, const SendWr& wr, Instant now);
  Errno post_recv(Qp* qp, const RecvWr& wr, Instant now);

  std::optional<Event> poll_event();
  const NicConfig& config() const { return config_; }
  const Counters& counters() const { return counters_; }

 private:
  friend class Qp;
  struct Core;
  NicConfig config_;
  MrTable mrs_;
  Counters counters_;
  std::vector<std::unique_ptr<Pd>> pds_;
  std::vector<std::unique_ptr<Cq>> cqs_;
  std::deque<Event> events_;
  std::unique_ptr<Core> core_;
};

}  // namespace uroce::nic
