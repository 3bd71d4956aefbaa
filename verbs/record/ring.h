// SPDX-License-Identifier: Apache-2.0
// What a flight recorder keeps of a NIC: its last events, and the heads of its last packets. The memory is a plain
// structure that other processes can read while it is written: one writer, no locks, and a reader that leaves out what
// was overwritten meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "proto/path.h"
#include "verbs/nic/model/trace.h"

namespace uroce::record {

inline constexpr std::size_t kEventsKept = 4096;
inline constexpr std::size_t kPacketsKept = 2048;
/// Bytes of each packet, from the BTH on: all headers of data packets.
inline constexpr std::size_t kHeadBytes = 68;
/// Messages of the connection manager are kept whole, the last ones of them: BTH, DETH, MAD (256 bytes) and ICRC.
inline constexpr std::size_t kMessagesKept = 64, kMessageBytes = 12 + 8 + 256 + 4;

/// What the NIC was doing when something happened.
enum class Phase : std::uint8_t {
  kOther,      ///< A timer, or a call of the program.
  kReceiving,  ///< It was about the packet that had been received last.
  kSending,    ///< It was about the packet that is sent next.
};

struct EventEntry {
  std::int64_t when_ns;  ///< By the clock of the NIC.
  std::uint32_t number;  ///< In one row with packets; counts over.
  std::uint8_t kind, phase;
  std::uint16_t reserved;
  std::uint32_t qpn, a, b;  ///< As TraceEvent has them.
  std::uint32_t reserved_too;
};

struct PacketEntry {
  std::int64_t when_ns;
  std::uint32_t number;
  std::uint32_t size;  ///< Bytes from the BTH to the ICRC.
  std::array<std::uint8_t, 16> source, destination;
  std::uint16_t source_port;
  std::uint8_t tclass, hop_limit;
  std::uint32_t flow_label;
  std::uint32_t qpn;  ///< The QP here, 24 bits; 0: not known. And kSent.
  std::array<std::uint8_t, kHeadBytes> head;

  static constexpr std::uint32_t kSent = 1u << 31;  ///< By this NIC; else it was received.
};

/// A packet to or from QP 1, as a whole.
struct MessageEntry {
  std::uint32_t number;  ///< That of its PacketEntry.
  std::array<std::uint8_t, kMessageBytes> bytes;
};

/// The memory as a whole. All zeros: nothing has happened.
struct Ring {
  static constexpr std::uint64_t kMagic =
      0x3430'6365'7275'6F72;  ///< Changes with the layout, and with the numbers of events.

  std::uint64_t magic;
  std::uint32_t pid, nic;         ///< The process and the NIC that write it.
  std::int64_t wall_offset_ns;    ///< Add it to times of the NIC: since 1970.
  std::uint32_t keeps_packets;    ///< 1 or 0.
  std::uint32_t last_number;      ///< Events and packets are numbered together.
  std::uint64_t events, packets;  ///< How many there have been; these are the last ones of them.
  std::array<char, 32> program;   ///< Its name, ended by zero.
  std::array<char, 48> address;   ///< The NIC's first one.
  std::array<EventEntry, kEventsKept> event;
  std::array<PacketEntry, kPacketsKept> packet;
  std::uint64_t messages;  ///< How many there have been.
  std::array<MessageEntry, kMessagesKept> message;
};
static_assert(std::is_trivially_copyable_v<Ring> && sizeof(EventEntry) == 32 && sizeof(PacketEntry) == 128);

/// Writes a ring, which outlives it. One thread at a time.
class RingWriter {
 public:
  /// Whether packets are kept does not change from here on.
  explicit RingWriter(Ring& ring) : ring_(ring), keeps_packets_(ring.keeps_packets != 0) {}

  bool keeps_packets() const { return keeps_packets_; }
  void add(const nic::TraceEvent& event, Phase phase) {
    EventEntry& entry = ring_.event[ring_.events % kEventsKept];
    entry = {.when_ns = event.when.time_since_epoch().count(),
             .number = ++ring_.last_number,
             .kind = static_cast<std::uint8_t>(event.kind),
             .phase = static_cast<std::uint8_t>(phase),
             .reserved = 0,
             .qpn = event.qpn,
             .a = static_cast<std::uint32_t>(event.a),
             .b = static_cast<std::uint32_t>(event.b),
             .reserved_too = 0};
    publish(ring_.events);
  }
  /// `qpn`: of the QP here; 0: not known.
  void add_sent(const proto::Path& path, Bytes packet, std::uint32_t qpn, Instant now) {
    add(path, packet, qpn | PacketEntry::kSent, now);
  }
  void add_received(const proto::Path& path, Bytes packet, Instant now);

 private:
  void add(const proto::Path& path, Bytes packet, std::uint32_t qpn, Instant now);
  void keep_message(std::uint32_t number, Bytes packet);
  static void publish(std::uint64_t& count) {
    std::atomic_ref(count).store(count + 1, std::memory_order_release);
    // The next place, that of the oldest one, is not overwritten before a reader can know it.
    std::atomic_thread_fence(std::memory_order_release);
  }

  Ring& ring_;
  bool keeps_packets_;  ///< Asked for each packet: the ring's own is behind a pointer, in memory that others map.
};

/// What a ring held at one moment, in order.
struct Recording {
  struct Event {
    nic::TraceEvent event;
    Phase phase = Phase::kOther;
    std::uint32_t number = 0;
  };
  struct Packet {
    Instant when{};
    std::uint32_t number = 0;
    proto::Path path;
    std::uint32_t size = 0;
    bool sent = false;
    std::uint32_t qpn = 0;           ///< The QP here; 0: not known.
    std::vector<std::uint8_t> head;  ///< All of it, of short packets and messages of the connection manager.
  };

  /// What is known of a QP besides.
  struct Qp {
    std::string peer;      ///< Its address, or "".
    Instant last_heard{};  ///< When a packet of the peer for it arrived; Instant{}: never.
    /// The peer's address is one of this machine, and nobody has bound RoCE's port there.
    bool port_closed = false;
  };

  /// Packets of the NIC, for any QP, that the kernel of its host has not sent.
  struct Refusals {
    std::uint64_t count = 0;
    int last_error = 0;  ///< The errno value of the last one.
  };

  std::uint32_t pid = 0, nic = 0;
  std::string program, address;
  // Not in the ring: the code that knows it adds it.
  std::map<std::uint32_t, Qp> qps;  ///< By QPN.
  Refusals refusals;
  std::uint64_t on_purpose = 0;  ///< Packets of the NIC that faults have lost, damaged or held back, in any direction.
  std::int64_t wall_offset_ns = 0;
  bool keeps_packets = false;
  std::uint64_t lost_events = 0, lost_packets = 0;  ///< Older ones that were overwritten.
  std::vector<Event> events;
  std::vector<Packet> packets;
};

/// Takes apart a copy of a ring. `events_after` and `packets_after`: how many may have been begun when the copy was
/// complete, which is one more than the counts that the ring had then. An empty recording when it is no ring of this
/// build.
Recording read_ring(const Ring& copy, std::uint64_t events_after, std::uint64_t packets_after);
/// For a ring that nobody writes meanwhile.
inline Recording read_ring(const Ring& ring) { return read_ring(ring, ring.events, ring.packets); }

}  // namespace uroce::record
