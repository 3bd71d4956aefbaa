// SPDX-License-Identifier: Apache-2.0
// A script about one QP: what its program posts, what its peer sends, and everything that must come of it, in order.
// The peer is made by hand, packet by packet; time is virtual and moves only in advance().
//
//     Script s;
//     s.post_recv(7, 100);
//     s.recv(send_only(0).bytes(100).ack_req());
//     s.expect(ack(0).msn(1));
//     s.expect_done(7, WcStatus::kSuccess);
//
// A script is strict: a packet, completion or asynchronous event that it does not expect is a failure, at the latest at
// its end.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "tests/support/memory.h"
#include "tests/unit/transport/rules/packets.h"
#include "verbs/nic/device/nic.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::test::rules {

using namespace std::chrono_literals;
using nic::Completion;
using nic::Event;
using nic::QpState;
using nic::SendOp;
using nic::WcStatus;
using proto::Psn;

inline constexpr std::uint32_t kAllAccess =
    nic::kLocalWrite | nic::kRemoteWrite | nic::kRemoteRead | nic::kRemoteAtomic | nic::kFlushGlobal;
inline constexpr std::uint32_t kMtu = 1024;  ///< In a script that does not say otherwise.

struct Setup {
  nic::QpType type = nic::QpType::kRc;
  std::uint8_t mtu_code = 3;
  std::uint32_t rq_psn = 0xFFFFFE;  ///< In what the peer sends first: wraps in nearly every script.
  std::uint32_t sq_psn = 0xFFFFFD;
  std::uint8_t timeout = 14, retry_cnt = 7, rnr_retry = 7, min_rnr_timer = 12;
  std::uint8_t max_rd_atomic = 4, max_dest_rd_atomic = 4;
  std::uint32_t qp_access = kAllAccess, mr_access = kAllAccess;
  std::uint32_t max_wr = 64, cqe = 1024;
  bool sq_sig_all = false;
  bool credits = true;                      ///< NicConfig::advertise_credits.
  std::uint64_t window_bytes = 160 * 1024;  ///< As NicConfig has it.
  std::uint64_t host_window_bytes = 0;      ///< The same.
  bool strict = false;                      ///< NicConfig::strict.
  std::uint32_t srq_wr = 0;                 ///< Not 0: the QP is attached to an SRQ of so many receives.
  QpState state = QpState::kRts;
  nic::TraceSink* trace = nullptr;                                            ///< NicConfig::trace.
  proto::Room (*room)(const proto::Path& path, std::uint32_t qpn) = nullptr;  ///< The same.
};

class Script {
 public:
  explicit Script(Setup setup = {});
  /// Fails when something happened that nobody expected.
  ~Script();
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  // --- what the program does --------------------------------------------------------------------------------------
  /// A WR whose local and remote memory begin at offset 0; `change` makes it another one.
  void post_send(std::uint64_t id, SendOp op, std::uint32_t length,
                 const std::function<void(nic::SendWr&)>& change = {});
  void post_recv(std::uint64_t id, std::uint32_t length, std::uint32_t offset = 0);
  void post_recv(std::uint64_t id, std::vector<nic::Sge> sges);
  /// As post_recv(), into the SRQ.
  void post_srq(std::uint64_t id, std::uint32_t length, std::uint32_t offset = 0);
  void move_to(QpState state, std::uint32_t mask = 0, const std::function<void(nic::QpAttr&)>& change = {});

  // --- what the peer does -----------------------------------------------------------------------------------------
  void recv(const Pkt& packet);
  /// Several that arrive together: the NIC is not asked for answers in between.
  void recv_together(const std::vector<Pkt>& packets);
  /// The NIC is not asked for the answer until the next step, and told that it comes before what is posted by then.
  void recv_and_keep_answer(const Pkt& packet);
  /// The same packet on another path, for instance from another address.
  void recv_on(const proto::Path& path, const Pkt& packet);

  // --- time -------------------------------------------------------------------------------------------------------
  /// Runs the timers that are due until then.
  void advance(Duration by);
  /// The process is stopped for so long: deadlines are noticed only then.
  void hold_up(Duration by);
  /// Since the script began.
  Duration elapsed() const { return now_ - kStart; }

  // --- what must have happened ------------------------------------------------------------------------------------
  /// The next packet that the NIC has sent. Returns when, since the script began.
  Duration expect(const Pkt& want, const char* file = __builtin_FILE(), int line = __builtin_LINE());
  void expect_silence(const char* file = __builtin_FILE(), int line = __builtin_LINE());
  /// The next completion; its other fields are in the result.
  Completion expect_done(std::uint64_t id, WcStatus status, const char* file = __builtin_FILE(),
                         int line = __builtin_LINE());
  void expect_not_done(const char* file = __builtin_FILE(), int line = __builtin_LINE());
  void expect_event(Event::Kind kind, const char* file = __builtin_FILE(), int line = __builtin_LINE());
  void expect_state(QpState state, const char* file = __builtin_FILE(), int line = __builtin_LINE());
  /// Takes whatever is there: for scripts that are about something else.
  void ignore_rest();

  /// Packets sent and not yet expected, in short.
  std::string pending() const;
  std::size_t pending_count() const { return sent_.size(); }

  static constexpr std::uint64_t kVa = 0x20000000;      ///< Where `memory` is, for the peer and for local SGEs.
  static constexpr std::uint64_t kPeerVa = 0x30000000;  ///< Where our WRITEs, READs and atomics go.
  static constexpr std::uint32_t kPeerKey = 0xABCD;
  static constexpr std::uint32_t kPeerQpn = 0x77;
  nic::Sge sge(std::uint32_t offset, std::uint32_t length) const { return {kVa + offset, length, key_}; }
  proto::Path path_to_us() const;
  /// UD: the address of the peer's QP.
  nic::UdTarget target() const;
  static constexpr std::uint32_t kQkey = 0x11111111;

  Memory memory;
  nic::Nic nic;
  nic::Pd* pd;
  nic::Cq* cq;
  nic::Mr* mr;
  nic::Srq* srq = nullptr;
  nic::Qp* qp;
  Setup setup;

 private:
  struct Sent {
    Instant at;
    std::vector<std::uint8_t> bytes;
  };
  static constexpr Instant kStart{std::chrono::seconds(1000)};

  nic::QpAttr attributes() const;
  std::uint32_t mask_for(QpState to) const;
  Psn absolute(const Pkt& packet, bool from_peer) const;
  void deliver(const proto::Path& path, const Pkt& packet);
  void collect();
  std::string differences(const Pkt& want, const proto::PacketView& got) const;
  std::string describe(const Sent& sent) const;

  std::uint32_t key_ = 0;  ///< For `mr`, which a script may deregister.
  Instant now_ = kStart;
  std::deque<Sent> sent_;
  std::deque<Completion> done_;
  std::deque<Event> events_;
};

}  // namespace uroce::test::rules
