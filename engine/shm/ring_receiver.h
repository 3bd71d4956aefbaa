// SPDX-License-Identifier: Apache-2.0
// The receiving half of ShmPort (shm_port.h, which has the rules): the rings that others write into.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "engine/port/port.h"
#include "engine/shm/link_keeper.h"

namespace uroce::engine {

class RingReceiver {
 public:
  /// Links that are broken are given back to `keeper`, which must outlive this.
  explicit RingReceiver(LinkKeeper& keeper) : keeper_(keeper) {}

  /// A link, closed as yet. Neither this nor remove_finished() while another thread is in a const function.
  void add(std::unique_ptr<IncomingLink> link);
  /// Its writer is gone: what is in the ring is read, and no more. Nothing happens if it is none of these.
  void end(LinkId id);

  /// Notes which closed links have packets; whether there is one. What came by UDP before them is to be received first.
  bool find_closed();
  /// Opens those that find_closed() has noted: nothing has come by UDP since.
  void open();
  /// Gives `sink` up to `budget` packets of open links. Returns how many.
  std::size_t receive(DatagramSink& sink, std::size_t budget);
  /// Whether receive() has seen a link that is over.
  bool has_finished() const { return has_finished_; }
  /// Gives up those that are over and have been read.
  void remove_finished();

  /// Links, open or not.
  std::size_t size() const { return sources_.size(); }
  /// Whether there is a packet in any of them.
  bool has_packets() const;
  /// Of what came through links.
  const PortCounters& counters() const { return counters_; }
  /// In a child of fork().
  void abandon();

 private:
  struct Source {
    enum class State { kClosed, kFilled, kOpen };  ///< kFilled: noted by find_closed().
    std::unique_ptr<IncomingLink> link;
    State state = State::kClosed;
    bool is_over = false;  ///< Its writer is gone.
  };

  std::size_t read_from(Source& source, DatagramSink& sink, std::size_t budget);

  alignas(64) std::array<std::uint8_t, proto::kMaxPacketSize> received_;
  LinkKeeper& keeper_;
  PortCounters counters_;
  std::vector<Source> sources_;
  std::size_t closed_ = 0;  ///< Those that are not open.
  bool has_finished_ = false;
  std::size_t next_ = 0;
};

}  // namespace uroce::engine
