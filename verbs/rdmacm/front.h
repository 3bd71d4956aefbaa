// SPDX-License-Identifier: Apache-2.0
// Everything of RDMA CM that a process has: the kernel's side of /dev/infiniband/rdma_cm, without packets.
//
// Locks, outermost first: the command mutex (one command at a time; none for GET_EVENT), the lock of a NIC, the event
// mutex. Events come with the lock of a NIC held and take the event mutex, so nothing locks a NIC while it has that.
#pragma once

#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/os/aware_mutex.h"
#include "verbs/rdmacm/nics.h"
#include "verbs/rdmacm/numbered.h"
#include "verbs/rdmacm/pipe_filter.h"

namespace uroce::rdmacm {

using FrontMutex = engine::AwareMutex<class Front>;

class Front final : public ibv::CmSink {
 public:
  /// The one of this process. A child of fork() gets a new one, in which nothing is open.
  static Front& get();

  /// Whether this thread is in the middle of a command or a verb, so that what it calls is called by a signal handler:
  /// commands would wait for themselves, and say EDEADLK instead.
  static bool is_inside_call();

  // --- channels -----------------------------------------------------------------------------------------------------
  /// open(2) of the device: a descriptor, or -1 and errno.
  int open_channel(int flags);
  /// The channel behind a pipe, or null. Takes no lock for other pipes: signal handlers write to theirs. In the middle
  /// of a command or a verb it may not find one that others use: it does not wait there.
  std::shared_ptr<Channel> channel_with(ino_t pipe);
  /// How often copies of channels have been closed: who has it from before knows whether one was.
  unsigned closes() const { return closes_; }
  /// Destroys everything on `channel` if the program has closed its last copy.
  void release_if_closed(const std::shared_ptr<Channel>& channel);
  /// One copy of `channel` has been closed: the same, and for those that others held when it was closed.
  void copy_closed(const std::shared_ptr<Channel>& channel);
  /// The same for all channels.
  void release_closed();
  /// The same if a signal handler has closed some in the middle of a command or a verb.
  void look_at_missed_closes();
  /// The process ends: everything on all channels is destroyed, as a kernel does then.
  void release_all();
  /// The event that a byte in the pipe stands for; nothing when it has been removed meanwhile.
  std::optional<rdma_ucm_event_resp> fetch(const std::shared_ptr<Channel>& channel);

  // --- for commands, with the command mutex held --------------------------------------------------------------------
  FrontMutex& command_mutex() { return commands_; }
  FrontMutex& event_mutex() { return events_; }

  /// The channel behind a pipe, or null.
  std::shared_ptr<Channel> channel_of_command(ino_t pipe);
  /// The id `number` of `channel`. ENOENT: there is none; EINVAL: it is on another channel.
  Result<Id*, int> find(const Channel& channel, std::uint32_t number);
  Id& create(const std::shared_ptr<Channel>& channel, std::uint16_t space, enum ibv_qp_type qp_type, std::uint64_t uid);
  /// Ends what `id` is in, and forgets it. `read_end`: a descriptor of its channel, or -1 when that is closed. Returns
  /// how many of its events the program has fetched.
  std::uint32_t destroy(Id& id, int read_end);
  /// Takes the queued events of `id` along to `to`. Returns as destroy().
  std::uint32_t migrate(Id& id, int read_end, const std::shared_ptr<Channel>& to);
  /// Queues an event that no peer caused.
  void raise(Id& id, EventType event, int status);
  /// One that the program has written itself, with a number of its own.
  void raise(Id& id, EventType event, int status, std::uint64_t argument);

  Result<Multicast*, int> find_group(const Channel& channel, std::uint32_t number);
  Multicast& add_group(Id& id, const proto::Gid& group, bool joined, std::uint64_t uid);
  /// MULTICAST_JOIN.
  void raise_joined(Multicast& multicast);
  std::uint32_t leave(Multicast& multicast, int read_end);

  /// Events of this connection, or requests for this listener, are for `id` from now on. Under the NIC's lock, before
  /// there can be any.
  void expect(Id& id, const ibv::Adapter& adapter, cm::Id connection);
  void expect_requests(Id& id, const ibv::Adapter& adapter, cm::ListenerId listener);
  /// Gives `id` the NIC on which it is from now on.
  void place(Id& id, Nic nic);
  /// `id` has no listener any more; its requests that nobody has fetched are gone. `read_end`: see destroy().
  void stop_listening(Id& id, int read_end);

  Nics& nics() { return nics_; }
  PortTable& ports() { return ports_; }

  Front* left_before = nullptr;  ///< For leave_to_parent().

  // CmSink
  void on_cm_events(ibv::Adapter& adapter, cm::Cm& cm) override;
  void on_removal(ibv::Adapter& adapter) override;

 private:
  friend struct ForkHandlers;
  Front();
  using Connection = std::pair<const ibv::Adapter*, std::uint32_t>;
  struct HashConnection {
    std::size_t operator()(const Connection& c) const {
      return std::hash<const void*>()(c.first) ^ (std::size_t{c.second} * 0x9E3779B97F4A7C15u);
    }
  };
  using ByConnection = std::unordered_map<Connection, Id*, HashConnection>;

  /// With the event mutex held.
  std::shared_ptr<Channel> find_channel(ino_t pipe) const;
  /// One of them. bad_alloc: nothing has changed.
  void on_event(ibv::Adapter& adapter, cm::Cm& cm, const cm::Event& event);
  void on_request(ibv::Adapter& adapter, cm::Cm& cm, const cm::Event& event);
  void end_connection(Id& id);
  /// The NIC of the request that is next; null: something else is.
  std::shared_ptr<ibv::Adapter> nic_of_next_request(const Channel& channel);
  /// Drops what is queued for `id`, which listens no more, or about it, and queues nothing from now on.
  void drop_events(Id& id, int read_end);
  void release(const std::shared_ptr<Channel>& channel);
  void look_at_half_closed();
  std::vector<std::shared_ptr<Channel>> channels();

  const pid_t process_ = ::getpid();
  FrontMutex commands_;
  FrontMutex events_;
  Nics nics_;  // Guarded by commands_, as the ports.
  PortTable ports_;
  // Guarded by events_.
  Numbered<Id> ids_;
  Numbered<Multicast> groups_;
  ByConnection connections_, listeners_;
  std::unordered_map<ino_t, std::shared_ptr<Channel>> channels_;
  /// Closed while another copy was open, perhaps of a child, whose close nobody hears.
  std::unordered_set<std::shared_ptr<Channel>> half_closed_;
  PipeFilter pipes_;  ///< Those of channels_, for who has no lock.
  std::atomic<bool> missed_close_ = false;
  std::atomic<unsigned> closes_ = 0;
};

}  // namespace uroce::rdmacm
