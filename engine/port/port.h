// SPDX-License-Identifier: Apache-2.0
// The network side of a NIC: a UDP socket pair at most, or a simulated wire. A Port moves whole RoCE packets (BTH ..
// ICRC) in batches and knows no QP. Implementations: UringPort (io_uring), SocketPort (sendmmsg/recvmmsg),
// sim::Link. Decorators wrap any port (CaptureTap).
//
// One thread at a time may use a Port, except wait(), which one other thread may call, and wake().
#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/base/clock.h"
#include "proto/path.h"

namespace uroce::engine {

/// Receives packets from Port::exchange(). The datagram's bytes are valid during the call only.
class DatagramSink {
 public:
  virtual ~DatagramSink() = default;
  virtual void on_datagram(const proto::Datagram& datagram) = 0;
};

struct PortCounters {
  std::uint64_t sent_packets = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_packets = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t send_errors = 0;       ///< Packets the kernel refused (no route, no buffer): lost, as on a wire.
  int last_send_error = 0;             ///< An errno value: why the kernel refused the last of them.
  std::uint64_t receive_overruns = 0;  ///< Packets the kernel dropped because our socket buffer was full.
  std::uint64_t system_calls = 0;
  std::uint64_t sent_by_shm = 0;  ///< The part of sent_packets that took shared memory.
  std::uint64_t received_by_shm = 0;
};

/// What runs and why, for people: shown by tools and in --json.
struct PortInfo {
  std::string engine;    ///< "io_uring", "socket" or "sim".
  std::string reason;    ///< "io_uring is available", "UROCE_ENGINE=socket", "io_uring_setup: EPERM (seccomp?)" ...
  std::string features;  ///< Space-separated: "multishot-recv buf-ring fixed-files ..."
  std::uint32_t receive_buffer_bytes = 0;  ///< What the socket really got (SO_RCVBUF as the kernel accounts it).
  std::vector<std::string> by_shm{};       ///< Addresses to which packets have gone through shared memory.
};

class Port {
 public:
  virtual ~Port() = default;

  /// Makes `wanted` usable as UDP source port of packets sent from `local`; returns the port that will really be used,
  /// which is another one when too many are in use already, and 0 when there is no socket for any: packets from
  /// `wanted` try again then. Balanced by release_source_port() with the result.
  virtual std::uint16_t acquire_source_port(const proto::Gid& local, std::uint16_t wanted) = 0;
  virtual void release_source_port(const proto::Gid& local, std::uint16_t port) = 0;

  /// Receives what is sent to the multicast group `group` as well, on the interfaces of this port's addresses. 0, or an
  /// errno value; EOPNOTSUPP: not this port. Balanced by leave_group(); only the first and the last of several count.
  virtual int join_group(const proto::Gid&) { return EOPNOTSUPP; }
  virtual void leave_group(const proto::Gid&) {}
  /// Other interfaces have the addresses of this port now: multicast packets come and go there.
  virtual void follow_addresses() {}

  /// A frame to fill (at least proto::kMaxPacketSize bytes), or an empty span when none is free: flush() or
  /// exchange() first. Calling it again without tx_commit() returns the same frame.
  virtual MutBytes tx_frame() = 0;
  /// Queues the frame that tx_frame() returned last. Its path's source must be an address of this port.
  virtual void tx_commit(const proto::Transmit& transmit) = 0;
  /// What room there is now for packets along `path` to QP `qpn` of which nobody acknowledges the last.
  virtual proto::Room room(const proto::Path&, std::uint32_t) { return proto::Room::kUnknown; }
  /// Submits everything queued.
  virtual void flush() = 0;
  /// Whether nothing that was committed waits to be sent: it may after a flush() where the network is full.
  virtual bool is_idle() const { return true; }
  /// Submits everything queued and hands at most about `rx_budget` packets that have already arrived to `sink`, in one
  /// system call where the engine can. Never blocks. Returns the number of packets received.
  virtual std::size_t exchange(DatagramSink& sink, std::size_t rx_budget) = 0;
  /// Whether the last exchange() found its packets, or none, without a system call: it took less than some looks at the
  /// clock. To send most likely needs none, too.
  virtual bool was_quick() const { return false; }

  /// Blocks until a packet can be received, unless they are masked, until `deadline`, or until wake(). No lock needed;
  /// spurious returns are fine. Returns false when it was the deadline.
  virtual bool wait(std::optional<Instant> deadline) = 0;
  /// The same until `earliest`, or up to `slack` later (Interrupts::doze()).
  virtual bool doze(Instant earliest, Duration /*slack*/) { return wait(earliest); }
  /// Whether packets leave wait() asleep (engine/os/interrupts.h); at first they do not.
  virtual void mask_packets(bool masked) = 0;
  /// Descriptors that are readable while packets wait to be received, masked or not, for threads that sleep elsewhere.
  /// They stay the same until abandon_after_fork(). Any thread. Empty: this port has none that tell of all packets.
  virtual std::span<const int> packet_fds() const { return {}; }
  /// To be called before and after a thread sleeps until one of packet_fds() is readable; one thread at a time. Before
  /// it sleeps: whether it may, for there are no packets yet.
  virtual bool expect_packets(bool /*expected*/) { return true; }
  /// The next exchange() looks for packets wherever they can come from, also where it looks seldom.
  virtual void look_everywhere() {}
  /// Ends a wait() that runs, or the next one. Any thread; async-signal-safe.
  virtual void wake() = 0;

  // Around fork(), so that abandon_after_fork() finds everything whole.
  virtual void before_fork() {}
  virtual void after_fork_in_parent() {}
  /// In the child of fork(): lets go of the descriptors, which the parent still uses, without touching what they stand
  /// for. Afterwards only the destructor may be called. Async-signal-safe.
  virtual void abandon_after_fork() = 0;

  virtual PortInfo info() const = 0;
  virtual PortCounters counters() const = 0;
};

}  // namespace uroce::engine
