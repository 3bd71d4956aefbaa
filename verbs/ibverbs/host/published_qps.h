// SPDX-License-Identifier: Apache-2.0
// The QPs of a NIC, for other processes to list and to look into (published_memory.h).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/os/fd.h"
#include "verbs/nic/device/nic.h"
#include "verbs/nic/model/qp_inside.h"
#include "verbs/nic/transport/qp.h"
#include "verbs/record/ring.h"
#include "verbs/view/nic_view.h"

namespace uroce::ibv {

/// What a QP has done since it was created. Bytes from the BTH to the ICRC.
struct QpCounts {
  std::uint64_t sent_packets = 0, sent_bytes = 0, received_packets = 0, received_bytes = 0;
  std::uint64_t retransmitted = 0, timeouts = 0, naks_received = 0, rnr_received = 0;
  std::uint64_t naks_sent = 0, rnr_sent = 0, duplicates = 0, out_of_sequence = 0, dropped_no_receive = 0;
  std::int64_t last_received_ns = 0;  ///< When one of the peer arrived last, by the monotonic clock; 0: never.
};

/// A QP as it was a moment ago.
struct LiveQp {
  /// As the program has set it last.
  struct alignas(8) Fixed {
    nic::QpType type{};
    nic::QpAttr attr;  ///< But for the state.
    std::uint32_t max_send_wr = 0, max_recv_wr = 0;
  };
  struct alignas(8) Moving {
    nic::QpState state{};
    nic::QpInside inside;
  };
  std::uint32_t qpn = 0;
  Fixed fixed;
  Moving moving;
  QpCounts counts;
};

struct LiveNic {
  std::uint32_t pid = 0, index = 0;
  std::string program, address;
  std::vector<LiveQp> qps;
};

/// With the NIC's lock held.
class PublishedQps {
 public:
  /// For NIC `index` with this first address. `name`: counters_name(). Null where there is no shared memory: then
  /// nothing is published.
  static std::unique_ptr<PublishedQps> make(const std::string& name, std::uint32_t index, const proto::Gid& address);
  ~PublishedQps();
  PublishedQps(const PublishedQps&) = delete;
  PublishedQps& operator=(const PublishedQps&) = delete;

  /// As it is now. If QPs have numbers with the same last 12 bits, the latest is shown.
  void show(const nic::Qp& qp);
  void hide(const nic::Qp& qp);

  // What happens to a QP. Others see it after publish().
  void sent(std::uint32_t qpn, std::size_t bytes);
  void received(std::uint32_t qpn, const proto::Gid& source, std::size_t bytes, Instant now);
  void on_event(const nic::TraceEvent& event);
  void touch(std::uint32_t qpn);
  /// The peers of all QPs, and of the last ones that were destroyed, and when each peer was heard.
  std::map<std::uint32_t, record::Recording::Qp> peers() const;
  /// Shows the QPs to which something has happened since the last time.
  void publish(const nic::Nic& nic);

 private:
  struct Record;
  struct Head;
  struct Memory;
  friend std::vector<view::QpView> published_qps(const std::string& name);
  friend std::vector<LiveNic> live_nics(std::uint32_t pid);
  PublishedQps(engine::Fd memory, Memory* all);
  static std::optional<Head> head_in(int memory);
  static std::vector<Record> records_in(int memory);
  static void show_inside(Record& record, const nic::Qp& qp);
  Record* find(std::uint32_t qpn);
  std::uint32_t index_of(const Record& record) const;
  void mark(const Record& record);
  static record::Recording::Qp peer_of(const Record& record);

  engine::Fd memory_;
  Memory* all_;
  std::vector<std::uint32_t> changed_;  ///< Indices of records.
  std::vector<bool> is_changed_;
  std::vector<bool> is_shown_;  ///< Whether a record is in use: to look there would take memory.
  std::map<std::uint32_t, record::Recording::Qp> gone_;
  std::deque<std::uint32_t> gone_order_;  ///< Their numbers; one that was used twice is there twice.
};

/// All QPs under `name` of processes that we may look into.
std::vector<view::QpView> published_qps(const std::string& name);

/// The NICs of process `pid`, or of all processes that we may look into (0), if this build of ours made them. Takes
/// milliseconds.
std::vector<LiveNic> live_nics(std::uint32_t pid = 0);

}  // namespace uroce::ibv
