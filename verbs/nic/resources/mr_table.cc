// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/resources/mr_table.h"

#include <cerrno>
#include <cstdint>
#include <limits>

#include "proto/base/check.h"
#include "proto/base/mix.h"

namespace uroce::nic {
namespace {

constexpr std::uint32_t kAllAccess = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kMwBind | kFlushGlobal;

/// Remote writers write locally too: without local write they have no right to give (IBTA Vol 1, 10.6.3.1).
bool valid_access(std::uint32_t access) {
  if ((access & ~kAllAccess) != 0) return false;
  return (access & (kRemoteWrite | kRemoteAtomic)) == 0 || (access & kLocalWrite) != 0;
}

/// True when [start, start + length) ends within the 64-bit address space.
bool fits(std::uint64_t start, std::uint64_t length) {
  return length - 1 <= std::numeric_limits<std::uint64_t>::max() - start;
}

bool valid_range(const std::uint8_t* memory, std::uint64_t length, std::uint64_t iova) {
  return length != 0 && fits(reinterpret_cast<std::uintptr_t>(memory), length) && fits(iova, length);
}

}  // namespace

MrTable::MrTable(std::uint32_t max_mrs, UserMemory& memory, std::uint64_t seed)
    : memory_(memory), seed_(seed), max_mrs_(max_mrs) {
  UROCE_ASSERT(max_mrs + kMaxMw + 1 < kNames);  // What is left of a key beside the tag.
  if (seed == 0) return;
  name_factor_ = static_cast<std::uint32_t>(mix(seed)) | 1;
  name_offset_ = static_cast<std::uint32_t>(mix(seed + 1));
  name_inverse_ = name_factor_;  // Right in the lowest 3 bits; each step doubles them.
  for (int i = 0; i < 4; ++i) name_inverse_ *= 2 - name_factor_ * name_inverse_;
}

MrTable::~MrTable() = default;

Result<Mr*, Errno> MrTable::add(Pd* pd, std::uint8_t* memory, std::uint64_t length, std::uint64_t iova,
                                std::uint32_t access, MrKind kind) {
  UROCE_ASSERT(pd != nullptr);
  if (kind == MrKind::kNull && nothing_ == nullptr) nothing_ = std::make_unique<Nothing>();
  if (!valid_range(memory, length, iova) || !valid_access(access)) return Err{EINVAL};
  if (count_ == max_mrs_) return Err{ENOMEM};
  auto mr = std::make_unique<Mr>(Mr{pd, memory, length, iova, access, 0, kind});  // First, as memory may be missing.
  const std::uint32_t index = take_index();
  mr->key = key_of(index);
  Entry& entry = entries_[index];
  UROCE_ASSERT(entry.mr == nullptr && entry.mw == nullptr);
  entry.mr = std::move(mr);
  ++pd->users;
  ++count_;
  return entry.mr.get();
}

Errno MrTable::remove(Mr* mr) {
  const std::uint32_t index = index_of(mr->key);
  UROCE_ASSERT(index < entries_.size() && entries_[index].mr.get() == mr);
  if (mr->windows != 0) return EBUSY;
  UROCE_ASSERT(mr->pd->users > 0);
  --mr->pd->users;
  ++entries_[index].tag;
  entries_[index].mr.reset();
  free_index(index);
  --count_;
  return 0;
}

Errno MrTable::change(Mr* mr, const Change& change) {
  const std::uint32_t index = index_of(mr->key);
  UROCE_ASSERT(index < entries_.size() && entries_[index].mr.get() == mr);
  if (mr->windows != 0) return EBUSY;
  if (change.change_memory && !valid_range(change.memory, change.length, change.iova)) return EINVAL;
  if (change.change_access && !valid_access(change.access)) return EINVAL;
  if (change.change_memory) {
    mr->memory = change.memory;
    mr->length = change.length;
    mr->iova = change.iova;
  }
  if (change.change_access) mr->access = change.access;
  if (change.pd != nullptr && change.pd != mr->pd) {
    UROCE_ASSERT(mr->pd->users > 0);
    --mr->pd->users;
    mr->pd = change.pd;
    ++mr->pd->users;
  }
  if (change.change_memory || change.pd != nullptr) {
    ++entries_[index].tag;
    mr->key = key_of(index);
  }
  return 0;
}

std::optional<AccessError> MrTable::objection(const Mr& mr, std::uint32_t key, const Pd* pd, std::uint32_t rights) {
  if (mr.key != key) return AccessError::kBadKey;
  if (mr.pd != pd) return AccessError::kWrongPd;
  if ((rights & ~mr.access) != 0) return AccessError::kNoRight;
  return std::nullopt;
}

Result<std::uint8_t*, AccessError> MrTable::resolve(std::uint32_t key, std::uint64_t va, std::uint64_t length,
                                                    const Pd* pd, std::uint32_t rights) const {
  const std::uint32_t index = index_of(key);
  if (index >= entries_.size() || entries_[index].mr == nullptr) return Err{AccessError::kBadKey};
  const Mr& mr = *entries_[index].mr;
  if (const auto error = objection(mr, key, pd, rights)) return Err{*error};
  // Subtractions only: va + length may exceed 64 bits.
  if (va < mr.iova) return Err{AccessError::kOutOfBounds};
  const std::uint64_t offset = va - mr.iova;
  if (offset > mr.length || length > mr.length - offset) return Err{AccessError::kOutOfBounds};
  return reach(mr, offset, length, rights);
}

Result<std::uint8_t*, AccessError> MrTable::reach(const Mr& mr, std::uint64_t offset, std::uint64_t length,
                                                  std::uint32_t rights) const {
  if (mr.kind == MrKind::kNull) return resolve_null(length, rights);
  // As numbers: an implicit on-demand region begins at null, to which C++ adds nothing.
  return reinterpret_cast<std::uint8_t*>(reinterpret_cast<std::uintptr_t>(mr.memory) + offset);
}

bool MrTable::is_null(std::uint32_t key, const Pd* pd) const {
  const std::uint32_t index = index_of(key);
  const Mr* const mr = index < entries_.size() ? entries_[index].mr.get() : nullptr;
  return mr != nullptr && mr->kind == MrKind::kNull && !objection(*mr, key, pd, 0);
}

Result<std::uint8_t*, AccessError> MrTable::resolve_null(std::uint64_t length, std::uint32_t rights) const {
  if (length > nothing_->zeros.size()) return Err{AccessError::kOutOfBounds};
  return (rights & kLocalWrite) != 0 ? nothing_->sink.data() : nothing_->zeros.data();
}

std::uint32_t MrTable::take_index() {
  // A freed index rests until many others are free: with 8 bits of tag, a stale key fits again after 256 reuses.
  const bool exhausted = entries_.size() > max_mrs_ + kMaxMw + 1;
  if (free_ > kRestingIndices || (exhausted && free_ > 0)) {
    const std::uint32_t index = first_free_;
    first_free_ = entries_[index].next_free;
    --free_;
    return index;
  }
  UROCE_ASSERT(!exhausted);
  // Neighbours start with different tags, so that a key that is off by one index names nothing.
  const auto add_entry = [this] {
    const auto index = static_cast<std::uint32_t>(entries_.size());
    const std::uint64_t secret = seed_ == 0 ? 0 : mix(seed_ + 2 + index);
    entries_.push_back({nullptr, nullptr, static_cast<std::uint8_t>(index * 0x9Du + 0x5Bu + secret), 0});
    return index;
  };
  const std::uint32_t index = add_entry();
  return key_of(index) >= 256 ? index : add_entry();
}

void MrTable::free_index(std::uint32_t index) {
  (free_ == 0 ? first_free_ : entries_[last_free_].next_free) = index;
  last_free_ = index;
  ++free_;
}

std::uint32_t MrTable::key_of(std::uint32_t index) const {
  return (index * name_factor_ + name_offset_) << 8 | entries_[index].tag;
}

}  // namespace uroce::nic
