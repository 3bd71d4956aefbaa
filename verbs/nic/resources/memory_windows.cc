// SPDX-License-Identifier: Apache-2.0
// Memory windows: binding, invalidating and looking them up (IBTA Vol 1, 10.6.7 and 10.6.5). They have their keys from
// the table that the regions have theirs from.
#include <cerrno>

#include "proto/base/check.h"
#include "verbs/nic/resources/mr_table.h"

namespace uroce::nic {
namespace {

/// Local write is a right that programs ask for and nobody can use: the key is an R_Key. Real cards take it too.
constexpr std::uint32_t kWindowAccess =
    kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kZeroBased | kFlushGlobal;

}  // namespace

Result<Mw*, Errno> MrTable::add_window(Pd* pd, MwType type) {
  UROCE_ASSERT(pd != nullptr);
  if (windows_ == kMaxMw) return Err{ENOMEM};
  auto mw = std::make_unique<Mw>(Mw{.pd = pd, .type = type});  // First, as memory may be missing.
  const std::uint32_t index = take_index();
  mw->key = key_of(index);
  Entry& entry = entries_[index];
  entry.mw = std::move(mw);
  ++pd->users;
  ++windows_;
  return entry.mw.get();
}

void MrTable::remove_window(Mw* mw) {
  const std::uint32_t index = index_of(mw->key);
  UROCE_ASSERT(index < entries_.size() && entries_[index].mw.get() == mw);
  unbind(*mw);
  --mw->pd->users;
  entries_[index].tag = static_cast<std::uint8_t>(mw->key + 1);
  entries_[index].mw.reset();
  free_index(index);
  --windows_;
}

void MrTable::unbind(Mw& mw) {
  if (mw.mr == nullptr) return;
  --mw.mr->windows;
  mw.mr = nullptr;
  if (mw.type != MwType::k2) return;
  (mw.previous != nullptr ? mw.previous->next : first_bound(mw.qpn)) = mw.next;
  if (mw.next != nullptr) mw.next->previous = mw.previous;
  mw.previous = mw.next = nullptr;
}

Mw* MrTable::find_window(std::uint32_t key) const {
  const std::uint32_t index = index_of(key);
  return index < entries_.size() ? entries_[index].mw.get() : nullptr;
}

/// The region that a bind names, if a window with these rights may lie where it wants to (C10-72 .. C10-75).
Mr* MrTable::region_under(const MwBind& bind, const Pd* pd) const {
  const std::uint32_t index = index_of(bind.lkey);
  if (index >= entries_.size() || entries_[index].mr == nullptr) return nullptr;
  Mr& mr = *entries_[index].mr;
  if (mr.key != bind.lkey || mr.pd != pd || mr.kind == MrKind::kNull || (mr.access & kMwBind) == 0) return nullptr;
  if ((bind.access & (kRemoteWrite | kRemoteAtomic)) != 0 && (mr.access & kLocalWrite) == 0) return nullptr;
  if ((bind.access & kFlushGlobal & ~mr.access) != 0) return nullptr;
  if (bind.addr < mr.iova) return nullptr;
  const std::uint64_t offset = bind.addr - mr.iova;
  return offset <= mr.length && bind.length <= mr.length - offset ? &mr : nullptr;
}

bool MrTable::bind(const MwBind& bind, const Pd* pd, std::uint32_t qpn) {
  Mw* const mw = find_window(bind.window);
  if (mw == nullptr || mw->pd != pd) return false;
  if ((bind.access & ~kWindowAccess) != 0) return false;
  if (mw->type == MwType::k1) {
    if ((bind.access & kZeroBased) != 0) return false;
  } else if (mw->mr != nullptr || bind.length == 0) {
    return false;  // It has to be invalidated first; and nothing is taken back by binding it to nothing.
  }
  Mr* const mr = bind.length == 0 ? nullptr : region_under(bind, pd);
  if (mr == nullptr && bind.length != 0) return false;
  unbind(*mw);
  const std::uint8_t tag = static_cast<std::uint8_t>(bind.new_key);
  mw->key = (bind.window & ~0xFFu) | tag;
  entries_[index_of(bind.window)].tag = tag;
  if (mr == nullptr) return true;
  ++mr->windows;
  mw->mr = mr;
  mw->offset = bind.addr - mr->iova;
  mw->start = (bind.access & kZeroBased) != 0 ? 0 : bind.addr;
  mw->length = bind.length;
  mw->access = bind.access;
  mw->qpn = qpn;
  if (mw->type != MwType::k2) return true;
  Mw*& first = first_bound(qpn);
  mw->next = first;
  if (first != nullptr) first->previous = mw;
  first = mw;
  return true;
}

bool MrTable::invalidate(std::uint32_t rkey, const Pd* pd, std::uint32_t qpn) {
  Mw* const mw = find_window(rkey);
  if (mw == nullptr || mw->key != rkey || mw->type != MwType::k2) return false;
  if (mw->mr == nullptr || mw->pd != pd || mw->qpn != qpn) return false;
  unbind(*mw);
  return true;
}

void MrTable::unbind_windows_of(std::uint32_t qpn) {
  for (Mw* mw = first_bound(qpn); mw != nullptr;) {
    Mw* const next = mw->next;
    if (mw->qpn == qpn) unbind(*mw);
    mw = next;
  }
}

std::optional<AccessError> MrTable::objection(const Mw& mw, std::uint32_t key, const Pd* pd, std::uint32_t qpn,
                                              std::uint32_t rights) {
  if (mw.key != key || mw.mr == nullptr) return AccessError::kBadKey;
  if (mw.pd != pd || (mw.type == MwType::k2 && mw.qpn != qpn)) return AccessError::kWrongPd;
  if ((rights & ~mw.access) != 0) return AccessError::kNoRight;
  return std::nullopt;
}

bool MrTable::grants_remote(std::uint32_t rkey, const Pd* pd, std::uint32_t qpn, std::uint32_t rights) const {
  if (const Mw* const mw = find_window(rkey)) return !objection(*mw, rkey, pd, qpn, rights);
  const std::uint32_t index = index_of(rkey);
  return index < entries_.size() && entries_[index].mr != nullptr && !objection(*entries_[index].mr, rkey, pd, rights);
}

Result<std::uint8_t*, AccessError> MrTable::resolve_remote(std::uint32_t rkey, std::uint64_t va, std::uint64_t length,
                                                           const Pd* pd, std::uint32_t qpn,
                                                           std::uint32_t rights) const {
  const Mw* const mw = find_window(rkey);
  if (mw == nullptr) return resolve(rkey, va, length, pd, rights);
  if (const auto error = objection(*mw, rkey, pd, qpn, rights)) return Err{*error};
  if (va < mw->start) return Err{AccessError::kOutOfBounds};
  const std::uint64_t offset = va - mw->start;
  if (offset > mw->length || length > mw->length - offset) return Err{AccessError::kOutOfBounds};
  return reach(*mw->mr, mw->offset + offset, length, rights);
}

}  // namespace uroce::nic
