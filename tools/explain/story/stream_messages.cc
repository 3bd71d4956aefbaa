// SPDX-License-Identifier: Apache-2.0
// Which packets make up a message, and how long it is: also where the capture has not all of them.
#include <algorithm>

#include "tools/explain/story/stream.h"

namespace uroce::explain {

/// The path MTU is known.
PsnIndex Stream::psns_of_bytes(std::uint64_t bytes) const {
  return bytes == 0 ? 1 : static_cast<PsnIndex>((bytes + mtu_ - 1) / mtu_);
}

/// PSNs that the message takes, as its RETH says; 0 when that is not known.
PsnIndex Stream::psns_of_length(const Message& message) const {
  return message.length_known && mtu_ != 0 ? psns_of_bytes(message.length) : 0;
}

void Stream::set_read_length(Message& message) {
  message.psns = psns_of_length(message);
  fill_hole(message.first, message.psns);  // Its first request may not be in the capture, only one for the rest.
  next_ = std::max(next_, message.end());
  cursor_ = std::max(cursor_, message.end());
}

/// Whether a packet that does not begin a message is one of this message, by its PSN.
bool Stream::reaches(const Message& message, PsnIndex index) const {
  if (const PsnIndex psns = psns_of_length(message); psns != 0) return index < message.first + psns;
  // One packet that is missing is not both the end of a message and the beginning of the next one; two may be. Those
  // before an acknowledged one do not come any more: they are taken for parts of this message.
  const bool acknowledged = reliable_ && index < una_;
  return !message.last_payload && (acknowledged || index <= std::max(message.end() + 1, usual_last(message)));
}

/// Where a message of UC should end, as all were of the same length so far. With RC time will tell.
PsnIndex Stream::usual_last(const Message& message) const {
  const auto& row = numbers_.operations[static_cast<std::size_t>(operation_of(message.kind))];
  const bool known = !reliable_ && message.begun && mtu_ != 0 && row.whole != 0 && row.least == row.most;
  return known ? message.first + psns_of_bytes(row.least) - 1 : message.first;
}

/// The message that a packet continues; null when it begins one, or the beginning is not in the capture.
Message* Stream::continued(PsnIndex index, const Packet& packet) {
  if (packet.op->starts()) return nullptr;
  // A hole in it is filled later.
  if (Message* const around = history_.message(index); around != nullptr && around->kind == packet.op->kind)
    return around;
  Message* const before = history_.before(index);
  if (before == nullptr || before->kind != packet.op->kind || !reaches(*before, index)) return nullptr;
  if (before->whole && !before->length_known) reopen(*before);
  return before;
}

/// There is more of a message that end_message() took for one without end.
void Stream::reopen(Message& message) {
  numbers_.operations[static_cast<std::size_t>(operation_of(message.kind))].bytes -= message.bytes;
  message.whole = false;
}

/// The numbers of messages so far may not be in the order of their PSNs.
void Stream::count_anew() {
  msn_ahead_.reset();
  in_order_from_ = next_;
}

Message& Stream::begin_message(PsnIndex index, const Packet& packet) {
  if (index < next_) count_anew();
  Message fresh;
  fresh.number = ++message_count_;
  fresh.kind = packet.op->kind;
  fresh.first = fresh.next_answer = index;
  fresh.begun = packet.op->starts();
  fresh.place = packet.place;
  fresh.time_ns = packet.time_ns;
  fresh.va = packet.va;
  fresh.rkey = packet.rkey;
  fresh.length = packet.length;
  fresh.length_known = packet.op->has(proto::HeaderId::kReth) && !packet.length_cut;
  ++numbers_.operations[static_cast<std::size_t>(operation_of(fresh.kind))].count;
  return history_.add_message(fresh);
}

/// Puts a packet that is seen for the first time into the message that it continues, or into one that it begins.
void Stream::join_message(PsnIndex index, const Packet& packet) {
  Message* open = continued(index, packet);
  if (open == nullptr) {
    // With RC its end is sent again.
    Message* const newest = history_.newest();
    if (!reliable_ && newest != nullptr && newest->first < index) end_message(*newest);
    open = &begin_message(index, packet);
  }
  if (open->is_read()) {
    if (mtu_ != 0) set_read_length(*open);
    open->bytes = open->length;
  } else {
    open->psns = std::max(open->psns, index + 1 - open->first);
    if (!open->whole) open->bytes += open->is_atomic() ? 8 : packet.payload;
    if (!open->length_known) open->length = std::max(open->length, open->bytes);
  }
  if (!reliable_ && !packet.lost_to().empty()) open->gap = true;
  if (packet.op->ends()) {
    open->last_payload = packet.payload;
    end_message(*open);
  } else {
    merge_behind(*open);
  }
}

/// Nothing more of it will come, as it seems.
void Stream::end_message(Message& message) {
  if (message.whole) return;
  message.whole = true;
  if (message.length_known) {
    message.bytes = message.length;
  } else if (message.last_payload && mtu_ != 0 && message.psns > 1 && !message.is_read()) {
    message.bytes = message.length = static_cast<std::uint64_t>(message.psns - 1) * mtu_ + *message.last_payload;
  }
  auto& row = numbers_.operations[static_cast<std::size_t>(operation_of(message.kind))];
  row.bytes += message.bytes;
  if (message.begun && (message.length_known || message.last_payload)) {
    row.least = row.whole++ == 0 ? message.bytes : std::min(row.least, message.bytes);
    row.most = std::max(row.most, message.bytes);
  }
  if (!reliable_ && message.begun && !message.gap) complete(message, 0);
}

/// The first part of a message was sent again: what is behind it was taken for a message without beginning.
void Stream::merge_behind(Message& message) {
  const auto next = history_.from(message.end());
  Message* const rest = next == history_.messages().end() ? nullptr : &*next;
  if (rest == nullptr || rest->begun || rest->done || rest->kind != message.kind) return;
  if (rest->first < message.end() || !reaches(message, rest->first)) return;
  auto& row = numbers_.operations[static_cast<std::size_t>(operation_of(message.kind))];
  --row.count;
  if (rest->whole) row.bytes -= rest->bytes;
  message.psns = rest->end() - message.first;
  message.bytes += rest->bytes;
  if (!message.length_known) message.length = message.bytes;
  message.time_ns = std::min(message.time_ns, rest->time_ns);
  message.last_payload = rest->last_payload;
  count_anew();
  const bool whole = rest->whole;
  const PsnIndex first = message.first;
  history_.remove(*rest);  // Moves the others.
  Message* const merged = history_.message(first);
  if (merged == nullptr) return;
  whole ? end_message(*merged) : merge_behind(*merged);
}

void Stream::fill_part(PsnIndex index, const Packet& packet, Told& told) {
  const Message* const message = history_.message(index);
  if (message == nullptr) return;
  told.part.message = message->number;
  const auto psns = static_cast<std::uint64_t>(index - message->first);
  told.part.size = message->is_atomic() ? 8 : packet.payload;
  if (packet.op->kind == proto::Kind::kReadRequest) told.part.size = packet.length;
  if (message->begun) told.part.offset = psns * (mtu_ != 0 ? mtu_ : packet.payload);
  // A SEND's length is not known before its end.
  const bool known = message->whole || message->length_known;
  if (message->begun && known) told.part.total = message->length;
}

}  // namespace uroce::explain
