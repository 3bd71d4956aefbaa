// SPDX-License-Identifier: Apache-2.0
// The windows of a NIC: one for each address that QPs are connected to (on this host two, as UC has its own), and one
// for all datagrams.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <memory>
#include <utility>

#include "proto/path.h"
#include "verbs/nic/model/config.h"
#include "verbs/nic/transport/base/window.h"

namespace uroce::nic {

class Windows {
 public:
  explicit Windows(const NicConfig& config)
      : config_(config), datagrams_(std::make_shared<PeerWindow>(unacked_here(), unacked_here(), 0, opened_)) {
    opened_.reserve(1);
  }

  /// The window to the peer at the end of `path`, for a QP whose packets are acknowledged (RC), or not (UC). It lives
  /// as long as somebody holds it. Buffers on this host have room for both; of others we do not know. It
  /// has room for the QP to wait.
  std::shared_ptr<PeerWindow> along(const proto::Path& path, bool is_acked) {
    const bool is_here = path.stays_here();
    const Peer peer{path.destination.raw, is_here && !is_acked};
    std::shared_ptr<PeerWindow> window = peers_[peer].lock();
    if (window == nullptr) {
      forget_unused();
      const std::uint64_t here = is_acked ? std::max(config_.window_bytes, config_.host_window_bytes) : unacked_here();
      window = std::make_shared<PeerWindow>(is_here ? here : config_.window_bytes, config_.most_window_bytes,
                                            is_here ? config_.crowded_bytes : 0, opened_);
      peers_[peer] = window;
      opened_.reserve(peers_.size() + 1);  // And the one of datagrams.
    }
    return with_room(window);
  }
  /// The window of UD QPs, which have no peer, with room for one more to wait. It is made for those on this host.
  const std::shared_ptr<PeerWindow>& datagrams() { return with_room(datagrams_); }
  /// Whether buffers on this host take more than others of what nobody acknowledges.
  bool has_large_host_queue() const { return unacked_here() > config_.window_bytes; }

  /// A SEND of UC or UD has come, or a part of one. Who reads them, and posts receives for more, has less time to send:
  /// what is sent next counts for more. (Both ends of a connection sent all they could, and did not read in time.)
  void on_unacked_send(std::uint32_t payload) { unacked_read_ += PeerWindow::cost(payload) * kReadShare / 100; }
  /// How much more, in bytes; it may be long ago that they came.
  std::uint64_t take_unacked_read() { return std::exchange(unacked_read_, 0); }

  /// The next window for which QPs wait and that has room; null: there is none.
  PeerWindow* take_opened() {
    if (opened_.empty()) return nullptr;
    PeerWindow* const window = opened_.back();
    opened_.pop_back();
    window->heard();
    return window;
  }

 private:
  struct Peer {
    std::array<std::uint8_t, 16> address;
    bool is_unacked_here;
    friend auto operator<=>(const Peer&, const Peer&) = default;
  };
  std::uint64_t unacked_here() const {
    return std::max(config_.window_bytes, std::min(config_.host_window_bytes, kUnackedWindowBytes));
  }
  /// All that hold `window`, and one more, may wait for it.
  static const std::shared_ptr<PeerWindow>& with_room(const std::shared_ptr<PeerWindow>& window) {
    window->waiting.reserve(static_cast<std::size_t>(window.use_count()));
    return window;
  }
  void forget_unused() {
    std::erase_if(peers_, [](const auto& entry) { return entry.second.expired(); });
  }

  const NicConfig& config_;
  std::vector<PeerWindow*> opened_;
  std::map<Peer, std::weak_ptr<PeerWindow>> peers_;
  std::shared_ptr<PeerWindow> datagrams_;
  std::uint64_t unacked_read_ = 0;
};

}  // namespace uroce::nic
