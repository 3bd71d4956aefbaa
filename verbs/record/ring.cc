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

/// Puts the rest of its message behind the head of a packet. A slot that was overwritten while it was read has another
/// beginning, which holds the IDs of the message.
void complete(Recording::Packet& packet, const Ring& copy) {
  if (packet.size != kMessageBytes) return;
  for (const MessageSlot& slot : copy.message) {
    if (slot.number != packet.number || !std::equal(packet.head.begin(), packet.head.end(), slot.bytes.begin()))
      continue;
    packet.head.assign(slot.bytes.begin(), slot.bytes.end());
  }
}

Recording::Event event_of(const EventSlot& slot) {
  return {.event = {.when = Instant(Duration(slot.when_ns)),
                    .kind = static_cast<nic::TraceKind>(slot.kind),
                    .qpn = slot.qpn,
                    .a = slot.a,
                    .b = slot.b},
          .phase = static_cast<Phase>(slot.phase),
          .number = slot.number};
}

Recording::Packet packet_of(const PacketSlot& slot) {
  const std::size_t kept = std::min<std::size_t>(slot.size, kHeadBytes);
  return {.when = Instant(Duration(slot.when_ns)),
          .number = slot.number,
          .path = {.source = {slot.source},
                   .destination = {slot.destination},
                   .source_port = slot.source_port,
                   .tclass = slot.tclass,
                   .hop_limit = slot.hop_limit,
                   .flow_label = slot.flow_label},
          .size = std::min<std::uint32_t>(slot.size, proto::kMaxPacketSize),
          .sent = (slot.qpn & PacketSlot::kSent) != 0,
          .qpn = slot.qpn & 0xFFFFFF,
          .head = {slot.head.begin(), slot.head.begin() + static_cast<std::ptrdiff_t>(kept)}};
}

}  // namespace

void RingWriter::add_received(const proto::Path& path, Bytes packet, Instant now) {
  add(path, packet, packet.size() >= proto::Bth::kSize ? dest_qp(packet) : 0, now);
}

void RingWriter::add(const proto::Path& path, Bytes packet, std::uint32_t qpn, Instant now) {
  PacketSlot& slot = ring_.packet[ring_.packets % kPacketsKept];
  slot.when_ns = now.time_since_epoch().count();
  slot.number = ++ring_.last_number;
  slot.size = static_cast<std::uint32_t>(packet.size());
  slot.source = path.source.raw;
  slot.destination = path.destination.raw;
  slot.source_port = path.source_port;
  slot.tclass = path.tclass;
  slot.hop_limit = path.hop_limit;
  slot.flow_label = path.flow_label;
  slot.qpn = qpn;
  std::memcpy(slot.head.data(), packet.data(), std::min(packet.size(), kHeadBytes));
  if (packet.size() == kMessageBytes && dest_qp(packet) == proto::cm::kManagementQpn) keep_message(slot.number, packet);
  publish(ring_.packets);
}

void RingWriter::keep_message(std::uint32_t number, Bytes packet) {
  MessageSlot& slot = ring_.message[ring_.messages % kMessagesKept];
  slot.number = number;
  std::memcpy(slot.bytes.data(), packet.data(), kMessageBytes);
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
    const EventSlot& slot = copy.event[i % kEventsKept];
    // The memory may be damaged: what a program that went wild has left.
    if (slot.kind < static_cast<std::uint8_t>(nic::TraceKind::kCount)) recording.events.push_back(event_of(slot));
  }
  for (std::uint64_t i = recording.lost_packets; i < copy.packets; ++i) {
    recording.packets.push_back(packet_of(copy.packet[i % kPacketsKept]));
    complete(recording.packets.back(), copy);
  }
  return recording;
}

}  // namespace uroce::record
