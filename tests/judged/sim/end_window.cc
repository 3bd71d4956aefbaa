// SPDX-License-Identifier: Apache-2.0
// The window of an end: its owner binds and invalidates it, its peer goes through it.
#include <algorithm>

#include "tests/judged/sim/connection.h"
#include "tests/judged/sim/end.h"
#include "tests/judged/sim/violation.h"
#include "tests/judged/sim/wire_lint.h"

namespace uroce::simulator {

using nic::SendOp;

/// Each connection begins with a new one.
void End::renew_window() {
  if (plan_.window == 0) return;
  if (window_.mw != nullptr) host_.nic.mrs().remove_window(window_.mw);
  const auto mw = host_.nic.mrs().add_window(host_.pd, static_cast<nic::MwType>(plan_.window));
  if (!mw) incorrect("{}: allocating a window fails with errno {}", name(), mw.error());
  window_ = {};
  window_.mw = *mw;
  window_.key = (*mw)->key;
  window_.covers = target_.whole();
}

bool End::window_in_use() const {
  const auto& pending = peer_->sends_.pending();
  return std::any_of(pending.begin(), pending.end(), [](const Op& op) { return op.windowed; });
}

/// Posts a bind or an invalidation when it is time for one.
void End::tend_window() {
  if (plan_.window == 0 || target_dead_ || window_.state == Window::State::kChanging) return;
  if (random_.chance(plan_.window_flaw)) return post_window_flaw();
  if (window_.state == Window::State::kNone) return post_bind(true);
  if (!random_.chance(plan_.window_change) || window_in_use()) return;
  if (plan_.window == 1) return post_bind(random_.chance(0.5));
  Op op;
  op.kind = SendOp::kLocalInv;
  op.key = window_.key;
  window_.state = Window::State::kChanging;
  window_taken_back_ = true;  // From here on: it is so before its completion is seen.
  post_local(op, {});
}

/// For type 1, a bind replaces the one before; one of no bytes takes the window back.
void End::post_bind(bool to_memory) {
  nic::MwBind bind;
  bind.window = window_.key;
  bind.new_key = (window_.key & ~0xFFu) | ((window_.key + 1) & 0xFF);
  if (to_memory) {
    constexpr std::uint32_t kRights[] = {nic::kRemoteWrite, nic::kRemoteRead, nic::kRemoteWrite | nic::kRemoteRead};
    bind.lkey = target_key_;
    bind.addr = host_.va(window_.covers.begin);
    bind.length = window_.covers.length;
    window_.access = kRights[random_.below(3)];
    window_.zero_based = plan_.zero_based;
    bind.access = window_.access | (plan_.zero_based ? std::uint32_t{nic::kZeroBased} : 0);
  }
  if (window_.state == Window::State::kBound) {
    window_.stale_key = window_.key;
    window_taken_back_ = true;
  }
  window_.state = Window::State::kChanging;
  window_.key = bind.new_key;
  Op op;
  op.kind = SendOp::kBindMw;
  op.length = 0;
  op.to_memory = to_memory;
  post_local(op, bind);
}

/// A bind of a window that is bound (type 2), or an invalidation of what no key names.
void End::post_window_flaw() {
  Op op;
  op.flaw = Flaw::kBadBind;
  nic::MwBind bind;
  if (plan_.window == 2 && window_.usable() && random_.chance(0.5)) {
    op.kind = SendOp::kBindMw;
    bind.window = window_.key;
    bind.new_key = window_.key ^ 0x80;
    bind.lkey = target_key_;
    bind.addr = host_.va(window_.covers.begin);
    bind.length = window_.covers.length;
    bind.access = nic::kRemoteWrite | nic::kRemoteRead;
  } else {
    op.kind = SendOp::kLocalInv;
    op.key = window_.key ^ 0x80;
  }
  flaw_posted_ = true;
  window_.state = Window::State::kChanging;  // Nobody shall change it before this is tried.
  post_local(op, bind);
}

void End::post_local(Op op, const nic::MwBind& bind) {
  op.id = stage_.next_id++;
  op.signaled = true;
  op.posted = stage_.world.now();
  unsignaled_ = 0;
  nic::SendWr wr;
  wr.wr_id = op.id;
  wr.op = op.kind;
  wr.flags = nic::kSignaled;
  wr.rkey = op.key;
  wr.bind = bind;
  sends_.posted(op);
  if (const nic::Errno error = host_.nic.post_send(qp_, wr)) {
    incorrect("{}: posting WR {} fails with errno {}", name(), wr.wr_id, error);
  }
}

void End::local_ended(const Op& op, Ending ending) {
  if (op.flaw != Flaw::kNone || ending != Ending::kSuccess) return;
  if (op.kind == SendOp::kLocalInv) return window_invalidated();
  stage_.tally.add(plan_.window == 1 ? "windows: bound, type 1" : "windows: bound, type 2");
  window_.state = op.to_memory ? Window::State::kBound : Window::State::kNone;
}

void End::window_invalidated() {
  stage_.tally.add("windows: invalidated");
  window_.stale_key = window_.key;
  window_.state = Window::State::kNone;
}

/// Whether an operation of the peer has its right from the window.
bool End::window_grants(const Op& op) const { return (right_for(op) & ~window_.access) == 0; }

/// Makes an operation on the peer's memory one that its window, or a key of it, does not allow.
void End::draw_window_flaw(Op& op) {
  const Window& window = peer_->window_;
  const Flaw wanted[] = {Flaw::kWindowBounds, Flaw::kWindowRight, Flaw::kWindowStale, Flaw::kWindowForeign};
  const Flaw flaw = wanted[random_.below(4)];
  if (op.length == 0 || op.source_seed != 0 || op.flaw != Flaw::kNone || op.is_word() ||
      !(op.is_write() || op.is_read())) {
    return;
  }
  const bool fits = flaw == Flaw::kWindowBounds  ? window.usable() && peer_->window_grants(op)
                    : flaw == Flaw::kWindowRight ? window.usable() && !peer_->window_grants(op)
                    : flaw == Flaw::kWindowStale ? window.has_stale_key()
                                                 : peer_->foreign_window() != nullptr;
  if (fits) op.flaw = flaw;
}

/// A window of type 2 that was bound with another QP of this host.
const Window* End::foreign_window() const {
  const Window* found = nullptr;
  host_.for_each_owner([&](QpOwner& owner) {
    const auto* const other = dynamic_cast<const End*>(&owner);
    if (other != nullptr && other != this && other->plan_.window == 2 && other->window_.usable()) {
      found = &other->window_;
    }
  });
  return found;
}

/// Puts the key and the address in by which the peer's window is named.
void End::name_window(const Op& op, nic::SendWr& wr) {
  const Window& window = peer_->window_;
  const auto at = [&](std::uint32_t offset) {
    return window.zero_based ? offset : peer_->host_.va(window.covers.begin + offset);
  };
  switch (op.flaw) {
    case Flaw::kWindowBounds:
      wr.rkey = window.key;
      wr.remote_addr = at(window.covers.length - op.length + 1);
      break;
    case Flaw::kWindowRight:
      wr.rkey = window.key;
      wr.remote_addr = at(0);
      break;
    case Flaw::kWindowStale:
      wr.rkey = window.stale_key;
      wr.remote_addr = at(0);
      break;
    case Flaw::kWindowForeign: {
      const Window& other = *peer_->foreign_window();
      wr.rkey = other.key;
      wr.remote_addr = other.zero_based ? 0 : peer_->host_.va(other.covers.begin);
      break;
    }
    default:
      if (!op.windowed) return;
      stage_.tally.add("windows: gone through");
      wr.rkey = window.key;
      wr.remote_addr = at(op.remote.begin - window.covers.begin);
      return;
  }
  stage_.tally.add("windows: uses that must fail");
}

/// A SEND that takes the peer's window back: what is posted later does not name it. READs before it may: without a
/// fence (IBTA Vol 1, 10.8.3.3) one whose answer is lost is asked for again when the window is no longer there.
void End::draw_invalidation(Op& op) {
  Window& window = peer_->window_;
  if (op.kind != SendOp::kSend || op.flaw != Flaw::kNone || peer_->plan_.window != 2 || !window.usable()) return;
  if (!random_.chance(peer_->plan_.window_change)) return;
  op.kind = SendOp::kSendInv;
  op.key = window.key;
  window.state = Window::State::kChanging;
  peer_->window_taken_back_ = true;
}

/// A region under a window can be neither deregistered nor registered again (11.2.8.5). True: that was tried.
bool End::target_is_under_window() {
  if (window_.state == Window::State::kNone) return false;
  if (window_.state == Window::State::kChanging) return true;
  nic::MrTable::Change change;
  change.change_access = true;
  change.access = target_mr_->access;
  if (host_.nic.mrs().change(target_mr_, change) == 0 || host_.nic.mrs().remove(target_mr_) == 0) {
    incorrect("{}: a region under a window is deregistered or changed", name());
  }
  stage_.tally.add("windows: the region under one is busy");
  return true;
}

}  // namespace uroce::simulator
