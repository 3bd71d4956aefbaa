// SPDX-License-Identifier: Apache-2.0
// A Port around a Port that writes every packet sent and received to a capture file, as the frame that it would be on
// an Ethernet: what tcpdump would have seen, without its privileges.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/port/port.h"
#include "proto/icrc.h"
#include "proto/pcap.h"

namespace uroce::engine {

/// Records are handed to the operating system whole: when the port falls idle, when much has gathered, and at the end.
/// A process killed in the middle loses only the last batch. Received packets are recorded before the NIC sees
/// them, so that the packet that breaks a NIC is in the file.
class CaptureTap final : public Port {
 public:
  using OnEnd = std::function<void(const std::string& error)>;
  /// `on_end` hears error() as soon as there is one.
  CaptureTap(std::unique_ptr<Port> port, proto::PcapWriter writer, OnEnd on_end = {})
      : port_(std::move(port)), writer_(std::move(writer)), on_end_(std::move(on_end)) {}

  std::uint16_t acquire_source_port(const proto::Gid& local, std::uint16_t wanted) override {
    return port_->acquire_source_port(local, wanted);
  }
  void release_source_port(const proto::Gid& local, std::uint16_t port) override {
    port_->release_source_port(local, port);
  }
  int join_group(const proto::Gid& group) override { return port_->join_group(group); }
  void leave_group(const proto::Gid& group) override { port_->leave_group(group); }
  void follow_addresses() override { port_->follow_addresses(); }
  MutBytes tx_frame() override { return frame_ = port_->tx_frame(); }
  void tx_commit(const proto::Transmit& transmit) override;
  proto::Room room(const proto::Path& path, std::uint32_t qpn) override { return port_->room(path, qpn); }
  void flush() override;
  bool is_idle() const override { return port_->is_idle(); }
  std::size_t exchange(DatagramSink& sink, std::size_t rx_budget) override;
  bool was_quick() const override { return port_->was_quick(); }
  bool wait(std::optional<Instant> deadline) override { return port_->wait(deadline); }
  bool doze(Instant earliest, Duration slack) override { return port_->doze(earliest, slack); }
  void mask_packets(bool masked) override { port_->mask_packets(masked); }
  std::span<const int> packet_fds() const override { return port_->packet_fds(); }
  bool expect_packets(bool expected) override { return port_->expect_packets(expected); }
  void look_everywhere() override { port_->look_everywhere(); }
  void wake() override { port_->wake(); }
  void before_fork() override { port_->before_fork(); }
  void after_fork_in_parent() override { port_->after_fork_in_parent(); }
  void abandon_after_fork() override;
  PortInfo info() const override { return port_->info(); }
  PortCounters counters() const override { return port_->counters(); }

  // For a decorator above that changes packets on purpose. Its words go to the file beside the packets, if the file has
  // room for comments (pcapng).
  bool takes_comments() const { return writer_.takes_comments(); }
  /// Says something about the packet that is committed next.
  void comment_next(std::string comment) { next_comment_ = std::move(comment); }
  /// Why the packet that begins with `bth` is sent, if it is the next one that is committed.
  void explain_next(Bytes bth, std::string reason) {
    reason_ = std::move(reason);
    std::copy_n(bth.begin(), std::min(bth.size(), reason_for_.size()), reason_for_.begin());
  }
  /// The reason of `packet`, which is no longer said when it is committed; "": there is none.
  std::string take_reason(Bytes packet);
  /// Records a packet that will never be sent.
  void record_lost(const proto::Path& path, Bytes packet, const std::string& comment);
  /// Asks what there is to say about each packet received.
  void comment_received(std::function<std::string(const proto::Datagram&)> ask) { ask_ = std::move(ask); }

  /// Why nothing is captured any more (a full disk, say); nothing while all is well. Packets flow on regardless.
  const std::optional<std::string>& error() const { return error_; }
  /// Packets that are not in the file because of that, or for lack of memory.
  std::uint64_t missed() const { return left_out_ + (error_ ? unwritten_ : 0); }

 private:
  using Direction = proto::PcapWriter::Direction;
  template <class Put>
  void capture(const Put& put);
  void record(const proto::Path& path, Bytes packet, const proto::IcrcCheck& icrc, const std::string& comment,
              Direction direction);
  void hand_over();

  std::unique_ptr<Port> port_;
  proto::PcapWriter writer_;
  OnEnd on_end_;
  MutBytes frame_;
  std::string next_comment_;
  std::string reason_;
  std::array<std::uint8_t, 12> reason_for_{};
  std::function<std::string(const proto::Datagram&)> ask_;
  std::vector<std::uint8_t> buffer_;
  std::uint64_t unwritten_ = 0;  ///< Packets since the last time that records were handed over.
  std::uint64_t left_out_ = 0;   ///< For lack of memory.
  std::optional<std::string> error_;
};

}  // namespace uroce::engine
