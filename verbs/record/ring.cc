// SPDX-License-Identifier: Apache-2.0
#include "verbs/record/ring.h"

#include <algorithm>
#include <cstring>

#include "proto/cm/message.h"
#include "proto/packet.h"
#include "verbs/record/text_field.h"

namespace uroce::record {
namespace {

/// The first of the last `kept` of `count` that was not overwritten when `after` had been begun.
std::uint64_t oldest(std::uint64_t count, std::uint64_t after, std::uint64_t kept) {
  const std::uint64_t begun = std::max(after, count);
  return std::min(count, begun > kept ? begun - kept : 0);
}

std::uint32_t dest_qp(Bytes packet) { return proto::ConstView<proto::Bth>{packet.data()}.get<proto::Bth::DestQp>(); }

/// Puts the rest of its message behind the head of a packet. A entry that was overwritten while it was read has another
/// beginning, which holds the IDs of the message.
void complete(Recording::Packet& packet, const Ring& copy) {
  if (packet.size != kMessageBytes) return;
  for (const MessageEntry& entry : copy.message) {
    if (entry.number != packet.number || !std::equal(packet.head.begin(), packet.head.end(), entry.bytes.begin()))
      continue;
    packet.head.assign(entry.bytes.begin(), entry.bytes.end());
  }
}

Recording::Event event_of(const EventEntry& entry) {
  return {.event = {.when = Instant(Duration(entry.when_ns)),
                    .kind = static_cast<nic::TraceKind>(entry.kind),
                    .qpn = entry.qpn,
                    .a = entry.a,
                    .b = entry.b},
          .phase = static_cast<Phase>(entry.phase),
          .number = entry.number};
}

Recording::Packet packet_of(const PacketEntry& entry) {
  const std::size_t kept = std::min<std::size_t>(entry.size, kHeadBytes);
  return {.when = Instant(Duration(entry.when_ns)),
          .number = entry.number,
          .path = {.source = {entry.source},
                   .destination = {entry.destination},
                   .source_port = entry.source_port,
                   .tclass = entry.tclass,
                   .hop_limit = entry.hop_limit,
                   .flow_label = entry.flow_label},
          .size = std::min<std::uint32_t>(entry.size, proto::kMaxPacketSize),
          .sent = (entry.qpn & PacketEntry::kSent) != 0,
          .qpn = entry.qpn & 0xFFFFFF,
          .head = {entry.head.begin(), entry.head.begin() + static_cast<std::ptrdiff_t>(kept)}};
}

}  // namespace

void RingWriter::add_received(const proto::Path& path, Bytes packet, Instant now) {
  add(path, packet, packet.size() >= proto::Bth::kSize ? dest_qp(packet) : 0, now);
}

void RingWriter::add(const proto::Path& path, Bytes packet, std::uint32_t qpn, Instant now) {
  PacketEntry& entry = ring_.packet[ring_.packets % kPacketsKept];
  entry.when_ns = now.time_since_epoch().count();
  entry.number = ++ring_.last_number;
  entry.size = static_cast<std::uint32_t>(packet.size());
  entry.source = path.source.raw;
  entry.destination = path.destination.raw;
  entry.source_port = path.source_port;
  entry.tclass = path.tclass;
  entry.hop_limit = path.hop_limit;
  entry.flow_label = path.flow_label;
  entry.qpn = qpn;
  std::memcpy(entry.head.data(), packet.data(), std::min(packet.size(), kHeadBytes));
  if (packet.size() == kMessageBytes && dest_qp(packet) == proto::cm::kManagementQpn)
    keep_message(entry.number, packet);
  publish(ring_.packets);
}

void RingWriter::keep_message(std::uint32_t number, Bytes packet) {
  MessageEntry& entry = ring_.message[ring_.messages % kMessagesKept];
  entry.number = number;
  std::memcpy(entry.bytes.data(), packet.data(), kMessageBytes);
  publish(ring_.messages);
}

Recording read_ring(const Ring& copy, std::uint64_t events_after, std::uint64_t packets_after) {
  Recording recording;
  if (copy.magic != Ring::kMagic) return recording;
  recording.pid = copy.pid;
  recording.nic = copy.nic;
  recording.program = text_of(copy.program);
  recording.address = text_of(copy.address);
  recording.wall_offset_ns = copy.wall_offset_ns;
  recording.keeps_packets = copy.keeps_packets != 0;
  recording.lost_events = oldest(copy.events, events_after, kEventsKept);
  recording.lost_packets = oldest(copy.packets, packets_after, kPacketsKept);
  for (std::uint64_t i = recording.lost_events; i < copy.events; ++i) {
    const EventEntry& entry = copy.event[i % kEventsKept];
    // The memory may be damaged: what a program that went wild has left.
    if (entry.kind < static_cast<std::uint8_t>(nic::TraceKind::kCount)) recording.events.push_back(event_of(entry));
  }
  for (std::uint64_t i = recording.lost_packets; i < copy.packets; ++i) {
    Recording::Packet packet = packet_of(copy.packet[i % kPacketsKept]);
    if (packet.path.source.is_v4() != packet.path.destination.is_v4()) continue;  // Of no network.
    complete(packet, copy);
    recording.packets.push_back(std::move(packet));
  }
  return recording;
}

}  // namespace uroce::record
