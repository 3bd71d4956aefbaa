// SPDX-License-Identifier: Apache-2.0
// The inside of Cm: tables, timers, what waits to be sent and told. The rules are in active.cc (REQ, RTU), passive.cc
// (REP), sidr.cc and ending.cc (REJ, DREQ, DREP, destroy).
#pragma once

#include <list>
#include <map>
#include <set>

#include "verbs/cm/cm.h"
#include "verbs/cm/latecomers.h"
#include "verbs/cm/limits.h"
#include "verbs/cm/listeners.h"
#include "verbs/cm/messages.h"
#include "verbs/cm/spare_memory.h"

namespace uroce::cm {

/// A message that has arrived.
struct Incoming {
  const wire::MessageView& message;
  const proto::Path& path;
  Instant now;
  const Latecomers::Request* waited = nullptr;  ///< It was this one of the latecomers.
  std::uint64_t tid() const { return message.mad().get<wire::Mad::TransactionId>(); }
};

struct Cm::Core {
  Core(const CmConfig& config, CmCounters& counters);

  // active.cc
  Result<Id, Errno> connect(const ConnectRequest& request, Instant now);
  void establish(Connection& c);
  void on_rep(const Incoming& in);
  void on_mra(const Incoming& in);

  // passive.cc
  void on_req(const Incoming& in);
  bool answer_known(const Incoming& in);  ///< False, as below: there is nothing to answer.
  bool refuse_path(const Incoming& in);
  void take_in(const Incoming& in, Listener& listener, std::uint16_t source_port);
  void on_rtu(const Incoming& in);
  void accept(Connection& c, const ConnectionParams& params, Bytes private_data, Instant now);
  void become_established(Connection& c);

  // sidr.cc
  Result<Id, Errno> sidr_request(const SidrRequest& request, Instant now);
  void on_sidr_req(const Incoming& in);
  void on_sidr_rep(const Incoming& in);
  void sidr_reply(Connection& c, const SidrReply& reply, Instant now);

  // ending.cc
  void on_rej(const Incoming& in);
  void on_dreq(const Incoming& in);
  void on_drep(const Incoming& in);
  void on_deadline(Connection& c, Instant now);
  bool is_request_to_nobody(const Connection& c) const;
  /// REJ 4, which gives up on a REP, or takes back a REQ (About::kOther): then we don't know the peer's ID. The kernel
  /// finds the connection by our GUID and ID, of either (IBTA Vol 1, 12.6.7).
  Mad timeout_of(const Connection& c, About about) const;
  /// What the peer has to hear if this end is no more. Nothing if it knows, or nobody waits.
  std::optional<Mad> last_words(const Connection& c) const;
  Errno reject(Connection& c, RejectReason reason, Bytes private_data, Instant now);
  void disconnect(Connection& c, Instant now);
  /// The peer has begun a new life with the same QP: asks whether this one is over.
  void disconnect_stale(Id id, Instant now);
  void destroy(Connection& c, Instant now);  ///< `c` may be gone afterwards.

  // core.cc: connections
  Result<Connection*, Errno> create(const Endpoint& local, const Endpoint& remote, const PathInfo& path);
  Connection& create();
  void erase(Connection& c);
  Connection* find(Id id);
  /// The connection `id`, if the packet comes from its peer; counted when not.
  Connection* find_from_peer(Id id, const Incoming& in);
  void enter(Connection& c, State state);  ///< Forgets what goes with the old state.
  void change_last_words(Connection& c);
  void enter_idle(Connection& c);
  void enter_timewait(Connection& c, Instant now);
  /// Makes the peer's ID and QP known.
  void remember_peer(Connection& c);
  void forget_peer(Connection& c);
  /// Whether a request for a service that nobody listens for waits for the next listener.
  bool may_wait(std::uint64_t service_id, const Incoming& in);
  /// Whether a request waits until there is a place for it, in the backlog and among the half-open: there is none now.
  bool waits_for_place(const Listener& listener, const Incoming& in);
  /// A new request takes its places in the backlog and among the half-open; false, and counted: there is none.
  bool take_place(Listener& listener, Connection& c);
  void place_free(ListenerId id);     ///< For the next one that waits.
  void leave_backlog(Connection& c);  ///< Its program knows of it, or it is no more. Not before, though it may be over.

  // core.cc: out
  proto::Path path_of(const Connection& c) const;
  std::uint16_t source_port(const Gid& local) const;
  void send(const Connection& c, const Mad& mad);
  /// Sends `mad` now, and `retries` times more until stop().
  void send_until_answered(Connection& c, const Mad& mad, int retries, Instant now);
  void stop(Connection& c) { set_deadline(c, std::nullopt); }
  void set_deadline(Connection& c, std::optional<Instant> deadline);
  /// To the sender of `in`, without a connection; limited.
  void answer(const Incoming& in, const Mad& mad);
  void refuse(const Incoming& in, RejectReason reason, Bytes info = {}, About about = About::kReq);
  Event& tell(const Connection& c, Event::Kind kind, int status = 0);
  void tell_end(Connection& c, int status = 0);  ///< kDisconnected, once.

  Duration scaled(Duration time) const { return time / config.time_divisor; }
  bool is_ours(const Gid& gid) const;
  Bytes first_gid() const;  ///< What a refusal names instead.
  bool is_improved() const { return !config.as_kernel; }
  std::uint32_t random24();

  const CmConfig& config;
  CmCounters& counters;
  SpareMemory memory;  ///< Of all tables.
  std::pmr::map<Id, Connection> connections{&memory};
  std::pmr::map<PeerKey, Id> by_peer_id{&memory};           ///< Finds duplicates: the peer's communication ID.
  std::pmr::map<PeerKey, Id> by_peer_qp{&memory};           ///< Finds stale connections: the peer's QPN.
  std::pmr::map<PeerKey, Id> by_request_id{&memory};        ///< SIDR, passive and not answered yet.
  std::pmr::map<std::uint32_t, Id> awaiting_data{&memory};  ///< By local QPN: REP is out.
  Listeners listeners{memory};
  HalfOpen half_open{kMaxHalfOpen, kMaxHalfOpenPerSource, memory};
  RecentAnswers sidr_answers{memory};
  Latecomers latecomers{config.as_kernel ? Instant::min() : config.may_listen_until, memory};
  RateLimit stranger_answers{kStrangerAnswersPerSecond};
  std::pmr::set<std::pair<Instant, Id>> timers{&memory};

  struct Outgoing {
    proto::Path path;
    Mad mad;
  };
  std::pmr::list<Outgoing> outgoing{&memory};
  std::pmr::list<Event> events{&memory};
  std::pmr::set<Id> new_last_words{&memory};
  std::uint64_t random_state;
  std::uint32_t ids_drawn = 0;
  proto::Psn first_psn;  ///< Of its datagrams.
  proto::Psn next_psn;
};

/// Copies a whole private data field.
PrivateData whole_field(Bytes field);

}  // namespace uroce::cm
