// SPDX-License-Identifier: Apache-2.0
// The windows of a NIC: one for each address that QPs are connected to, and one for all datagrams.
#pragma once

#include <map>
#include <memory>

#include "proto/path.h"
#include "verbs/nic/model/config.h"
#include "verbs/nic/transport/base/window.h"

namespace uroce::nic {

class Windows {
 public:
  explicit Windows(const NicConfig& config)
      : config_(config), datagrams_(std::make_shared<PeerWindow>(host_queue(), host_queue(), opened_)) {}

  /// The window to the peer at the end of `path`. It lives as long as somebody holds it.
  std::shared_ptr<PeerWindow> along(const proto::Path& path) {
    std::shared_ptr<PeerWindow> window = peers_[path.destination.raw].lock();
    if (window == nullptr) {
      forget_unused();
      const std::uint64_t queue = path.stays_here() ? host_queue() : config_.window_bytes;
      peers_[path.destination.raw] = window = std::make_shared<PeerWindow>(queue, config_.most_window_bytes, opened_);
    }
    return window;
  }
  /// The window of UD QPs, which have no peer. It is made for those on this host.
  const std::shared_ptr<PeerWindow>& datagrams() const { return datagrams_; }
  /// Whether buffers on this host take more than others.
  bool has_large_host_queue() const { return host_queue() > config_.window_bytes; }

  /// The next window for which QPs wait and that has room; null: there is none.
  PeerWindow* take_opened() {
    if (opened_.empty()) return nullptr;
    PeerWindow* const window = opened_.back();
    opened_.pop_back();
    window->heard();
    return window;
  }

 private:
  std::uint64_t host_queue() const { return std::max(config_.window_bytes, config_.host_window_bytes); }
  void forget_unused() {
    std::erase_if(peers_, [](const auto& entry) { return entry.second.expired(); });
  }

  const NicConfig& config_;
  std::vector<PeerWindow*> opened_;
  std::map<std::array<std::uint8_t, 16>, std::weak_ptr<PeerWindow>> peers_;
  std::shared_ptr<PeerWindow> datagrams_;
};

}  // namespace uroce::nic
