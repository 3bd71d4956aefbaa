// SPDX-License-Identifier: Apache-2.0
#include "engine/port/capture_tap.h"

#include <new>
#include <utility>

#include "engine/os/os_clock.h"
#include "proto/frame.h"
#include "proto/packet.h"

namespace uroce::engine {
namespace {

constexpr std::size_t kBufferedMax = 128 * 1024;  ///< Bytes: then records are handed over even though the NIC is busy.
constexpr const char* kTooLong = "longer than any RoCE packet, and perhaps cut here";

}  // namespace

std::string CaptureTap::take_reason(Bytes packet) {
  std::string reason = std::exchange(reason_, {});
  return std::equal(reason_for_.begin(), reason_for_.end(), packet.begin()) ? reason : std::string();
}

void CaptureTap::tx_commit(const proto::Transmit& transmit) {
  capture([&] {
    if (const std::string reason = take_reason(frame_); !reason.empty()) {
      next_comment_ += next_comment_.empty() ? reason : "; " + reason;
    }
    record(transmit.path, frame_.first(transmit.size), {}, next_comment_, Direction::kSent);
  });
  next_comment_.clear();
  port_->tx_commit(transmit);
}

void CaptureTap::flush() {
  port_->flush();
  hand_over();
}

std::size_t CaptureTap::exchange(DatagramSink& sink, std::size_t rx_budget) {
  struct Recorder final : DatagramSink {
    Recorder(CaptureTap& t, DatagramSink& s) : tap(t), next(s) {}
    void on_datagram(const proto::Datagram& datagram) override {
      tap.capture([&] {
        std::string comment = tap.ask_ ? tap.ask_(datagram) : "";
        if (datagram.payload.size() > proto::kMaxPacketSize) {
          comment += comment.empty() ? kTooLong : std::string("; ") + kTooLong;
        }
        tap.record(datagram.path, datagram.payload, proto::check_icrc(datagram), comment, Direction::kReceived);
      });
      next.on_datagram(datagram);
    }
    CaptureTap& tap;
    DatagramSink& next;
  } recorder{*this, sink};

  const std::size_t received = port_->exchange(recorder, rx_budget);
  if (received == 0) hand_over();
  return received;
}

void CaptureTap::abandon_after_fork() {
  writer_.abandon();
  port_->abandon_after_fork();
}

void CaptureTap::record_lost(const proto::Path& path, Bytes packet, const std::string& comment) {
  capture([&] { record(path, packet, {}, comment, Direction::kSent); });
}

/// Without memory the packet is not in the file; it flows on all the same.
template <class Put>
void CaptureTap::capture(const Put& put) {
  try {
    put();
  } catch (const std::bad_alloc&) {
    ++left_out_;
  }
}

void CaptureTap::record(const proto::Path& path, Bytes packet, const proto::IcrcCheck& icrc, const std::string& comment,
                        Direction direction) {
  if (error_) {
    ++unwritten_;
    return;
  }
  const proto::FrameFields fields = proto::frame_fields_for(path, icrc);
  buffer_.resize(proto::frame_size(fields, packet.size()));
  const std::size_t size = proto::build_frame(fields, packet, buffer_);
  writer_.write(wall_clock_now().count(), Bytes(buffer_).first(size), comment, direction);
  ++unwritten_;
  if (writer_.buffered() > kBufferedMax) hand_over();
}

void CaptureTap::hand_over() {
  if (unwritten_ == 0 || error_) return;
  try {
    error_ = writer_.flush();
    if (!error_) {
      unwritten_ = 0;
    } else if (on_end_) {
      on_end_(*error_);
    }
  } catch (const std::bad_alloc&) {  // Later, perhaps.
  }
}

}  // namespace uroce::engine
