// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/ring_receiver.h"

#include <algorithm>

namespace uroce::engine {

void RingReceiver::add(std::unique_ptr<IncomingLink> link) {
  sources_.push_back({.link = std::move(link)});
  ++closed_;
}

void RingReceiver::end(LinkId id) {
  for (Source& source : sources_) {
    if (source.link->id == id) source.is_over = true;
  }
}

bool RingReceiver::find_closed() {
  if (closed_ == 0) return false;
  bool found = false;
  for (Source& source : sources_) {
    if (source.state == Source::State::kOpen || source.link->ring.is_empty()) continue;
    source.state = Source::State::kFilled;
    found = true;
  }
  return found;
}

void RingReceiver::open() {
  for (Source& source : sources_) {
    if (source.state != Source::State::kFilled) continue;
    source.state = Source::State::kOpen;
    --closed_;
  }
}

std::size_t RingReceiver::receive(DatagramSink& sink, std::size_t budget) {
  std::size_t received = 0;
  for (std::size_t i = 0; i < sources_.size() && received < budget; ++i) {
    Source& source = sources_[(next_ + i) % sources_.size()];
    if (source.state == Source::State::kOpen && !source.link->ring.is_empty()) {
      received += read_from(source, sink, budget - received);
    }
    has_finished_ |= source.is_over;
  }
  if (received >= budget) ++next_;  // One busy link must not starve the others.
  return received;
}

std::size_t RingReceiver::read_from(Source& source, DatagramSink& sink, std::size_t budget) {
  const proto::Path from_to{.source = source.link->name.source, .destination = source.link->name.destination};
  RingReader& ring = source.link->ring;
  std::size_t received = 0;
  for (; received < budget; ++received) {
    const auto datagram = ring.read(from_to, received_);
    if (!datagram) break;
    ++counters_.received_packets;
    counters_.received_bytes += datagram->payload.size();
    sink.on_datagram(*datagram);
  }
  ring.release();
  if (ring.is_broken() && !source.is_over) {
    keeper_.drop(source.link->id);
    source.is_over = true;
  }
  return received;
}

void RingReceiver::remove_finished() {
  has_finished_ = false;
  std::erase_if(sources_, [this](const Source& source) {
    if (!source.is_over || !source.link->ring.is_empty()) return false;
    if (source.state != Source::State::kOpen) --closed_;
    return true;
  });
}

bool RingReceiver::has_packets() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [](const Source& source) { return !source.link->ring.is_empty(); });
}

void RingReceiver::abandon() {
  for (const Source& source : sources_) source.link->ring.forget();
}

}  // namespace uroce::engine
