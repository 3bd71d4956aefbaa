// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/address_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

namespace uroce::ibv {
namespace {

engine::Fd open_events() {
  engine::Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&groups), sizeof groups) != 0) return {};
  return fd;
}

/// What they say does not matter: something has changed. ENOBUFS: so much that some of it was lost.
void drain(const engine::Fd& events) {
  std::array<char, 8192> message;
  while (::recv(events.get(), message.data(), message.size(), 0) >= 0 || errno == ENOBUFS || errno == EINTR) {
  }
}

}  // namespace

std::unique_ptr<AddressWatch> AddressWatch::start(const std::vector<proto::Gid>& addresses, OnChange on_change) {
  engine::Fd events = open_events();
  if (!events) return nullptr;
  std::vector<proto::Gid> watched;
  const auto now = look_at(addresses);
  if (!now) return nullptr;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (now->assigned[i]) watched.push_back(addresses[i]);
  }
  if (watched.empty()) return nullptr;
  auto first = look_at(watched);
  if (!first) return nullptr;
  std::unique_ptr<AddressWatch> watch(
      new AddressWatch(std::move(events), std::move(watched), *std::move(first), std::move(on_change)));
  if (!watch->waiter_.valid()) return nullptr;
  watch->thread_ = engine::start_background_thread([watch = watch.get()] { watch->run(); });
  return watch;
}

AddressWatch::AddressWatch(engine::Fd events, std::vector<proto::Gid> addresses, AddressState first, OnChange on_change)
    : events_(std::move(events)),
      addresses_(std::move(addresses)),
      first_(std::move(first)),
      on_change_(std::move(on_change)) {}

AddressWatch::~AddressWatch() {
  if (thread_ == nullptr) return;
  stop_.store(true, std::memory_order_relaxed);
  waiter_.wake();
  thread_->join();
}

void AddressWatch::abandon_after_fork() {
  engine::leave_to_parent(std::move(thread_));
  events_.reset();
  waiter_.close();
}

void AddressWatch::run() {
  const AddressState* before = &first_;  // A copy takes memory.
  AddressState last;
  const std::array<int, 1> fds{events_.get()};
  bool is_untold = false;  // Something may have changed that nobody has been told of.
  while (!stop_.load(std::memory_order_relaxed)) {
    try {
      if (!is_untold) waiter_.wait(fds, std::nullopt);
      if (stop_.load(std::memory_order_relaxed)) return;
      is_untold = true;
      drain(events_);
      auto state = look_at(addresses_);
      if (!state) {
        engine::nap();
        continue;
      }
      if (*state != *before) on_change_(*state);
      last = *std::move(state);
      before = &last;
      is_untold = false;
    } catch (const std::bad_alloc&) {  // The program has taken all the memory that it may have. It goes on.
      engine::nap();
    }
  }
}

}  // namespace uroce::ibv
