// SPDX-License-Identifier: Apache-2.0
// Memory regions, windows on them, and the keys that name both. lkey = rkey = name of an index << 8 | tag, the tag
// changing with every use of an index, so that a stale key of a deregistered region does not fit its successor. Which
// name an index has is a secret of the table, so that who has been given a key does not know its neighbours'. Every
// access of the NIC to user memory goes through resolve(): bounds, rights and PD are checked before a byte is touched.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "proto/base/result.h"
#include "verbs/nic/model/checks.h"
#include "verbs/nic/model/limits.h"
#include "verbs/nic/model/types.h"
#include "verbs/nic/model/user_memory.h"

namespace uroce::nic {

/// Protection domain: an identity that objects share.
struct Pd {
  std::uint32_t users = 0;  ///< MRs, QPs, ... in it: a PD in use can't be deallocated.
};

/// kNull: reads give zeros, writes go nowhere; only for local use.
enum class MrKind : std::uint8_t { kPlain, kNull };

struct Mr {
  Pd* pd = nullptr;
  std::uint8_t* memory = nullptr;  ///< Where the region's first byte lies.
  std::uint64_t length = 0;
  std::uint64_t iova = 0;    ///< The address by which WRs and peers name the first byte.
  std::uint32_t access = 0;  ///< Access bits. Local read is always granted.
  std::uint32_t key = 0;     ///< lkey and rkey.
  MrKind kind = MrKind::kPlain;
  std::uint32_t windows = 0;  ///< Bound to it.
};

/// ibv_mw_type. Windows of type 2 are 2B: they belong to the QP that they were bound with, and to a PD.
enum class MwType : std::uint8_t { k1 = 1, k2 = 2 };

/// Memory window: rights of peers to a part of a region, given and taken back by work requests.
struct Mw {
  Pd* pd = nullptr;
  MwType type = MwType::k1;
  std::uint32_t key = 0;  ///< rkey; never an lkey.
  // While it is bound:
  Mr* mr = nullptr;          ///< Null: it names nothing.
  std::uint64_t offset = 0;  ///< Its first byte's, in the region.
  std::uint64_t start = 0;   ///< The address by which peers name the first byte; 0 when it is zero-based.
  std::uint64_t length = 0;
  std::uint32_t access = 0;
  std::uint32_t qpn = 0;  ///< Type 2: the QP that it was bound with.
  // Type 2: its neighbours among bound windows (MrTable::bound_).
  Mw* previous = nullptr;
  Mw* next = nullptr;
};

class MrTable {
 public:
  /// `memory`: how what is behind the regions is touched. `seed`: keys follow from it; 0: an index is its own name.
  explicit MrTable(std::uint32_t max_mrs, UserMemory& memory = steady_memory(), std::uint64_t seed = 0);
  ~MrTable();

  /// Registers memory. EINVAL: length 0, a range that wraps around, unknown access bits, or remote write/atomic without
  /// local write (IBTA Vol 1, 10.6.3.1, and every provider); ENOMEM: table full. The PD's user count goes up.
  Result<Mr*, Errno> add(Pd* pd, std::uint8_t* memory, std::uint64_t length, std::uint64_t iova, std::uint32_t access,
                         MrKind kind = MrKind::kPlain);
  Errno remove(Mr* mr);  ///< EBUSY while windows are bound to it.
  /// Gives the region new rights, memory and/or PD (ibv_rereg_mr). Null/0 pointers keep the old value. New memory or a
  /// new PD come under a new key; new rights alone do not (as rxe and mlx5: peers go on with the key that they know).
  struct Change {
    Pd* pd = nullptr;
    std::uint8_t* memory = nullptr;
    std::uint64_t length = 0;
    std::uint64_t iova = 0;
    bool change_memory = false;
    bool change_access = false;
    std::uint32_t access = 0;
  };
  Errno change(Mr* mr, const Change& change);  ///< EINVAL as add(); EBUSY as remove().

  /// Where [va, va + length) of the region named by `key` lies, if it belongs to `pd` and grants all of `rights`
  /// (Access bits; 0 = local read). Whether there is memory turns out when it is touched. length 0 is the caller's
  /// case: it needs no key (IBTA C9-88).
  Result<std::uint8_t*, AccessError> resolve(std::uint32_t key, std::uint64_t va, std::uint64_t length, const Pd* pd,
                                             std::uint32_t rights) const;
  /// Whether `key` names a null region of `pd`, behind which there is no memory.
  bool is_null(std::uint32_t key, const Pd* pd) const;
  std::uint32_t size() const { return count_; }

  /// The only way to touch what resolve() returns: it need not be there.
  UserMemory& memory() const { return memory_; }

  // memory_windows.cc
  Result<Mw*, Errno> add_window(Pd* pd, MwType type);
  void remove_window(Mw* mw);
  /// Executes a bind on QP `qpn` of `pd`. False, and nothing has changed: a bind that may not be
  /// (IBTA Vol 1, 10.6.7.2).
  bool bind(const MwBind& bind, const Pd* pd, std::uint32_t qpn);
  /// Takes a type 2 window back, asked for on QP `qpn` by its owner or its peer. False: it names no such window.
  bool invalidate(std::uint32_t rkey, const Pd* pd, std::uint32_t qpn);
  /// The QP goes, and with it the windows that belong to it.
  void unbind_windows_of(std::uint32_t qpn);
  /// As resolve(), for what the peer of QP `qpn` names: a region or a window. `rights` are remote ones.
  Result<std::uint8_t*, AccessError> resolve_remote(std::uint32_t rkey, std::uint64_t va, std::uint64_t length,
                                                    const Pd* pd, std::uint32_t qpn, std::uint32_t rights) const;
  /// As resolve_remote(), without an address: for what is about a whole region or window.
  bool grants_remote(std::uint32_t rkey, const Pd* pd, std::uint32_t qpn, std::uint32_t rights) const;

 private:
  static constexpr std::size_t kRestingIndices = 256;
  struct Entry {
    std::unique_ptr<Mr> mr;  ///< Or:
    std::unique_ptr<Mw> mw;
    std::uint8_t tag = 0;
    std::uint32_t next_free = 0;
  };
  /// Where the list begins that bound windows of type 2 of this QP are in.
  Mw*& first_bound(std::uint32_t qpn) { return bound_[qpn % bound_.size()]; }
  void unbind(Mw& mw);
  Mw* find_window(std::uint32_t key) const;
  /// Why somebody of `pd` may not use these rights under this key, wherever in the region or window.
  static std::optional<AccessError> objection(const Mr& mr, std::uint32_t key, const Pd* pd, std::uint32_t rights);
  static std::optional<AccessError> objection(const Mw& mw, std::uint32_t key, const Pd* pd, std::uint32_t qpn,
                                              std::uint32_t rights);
  Mr* region_under(const MwBind& bind, const Pd* pd) const;
  std::uint32_t take_index();
  void free_index(std::uint32_t index);
  std::uint32_t key_of(std::uint32_t index) const;
  /// The index that `key` names; what it names may not be there.
  std::uint32_t index_of(std::uint32_t key) const { return ((key >> 8) - name_offset_) * name_inverse_ & kNames; }

  /// Memory of `mr` from `offset` on, which is within bounds and granted.
  Result<std::uint8_t*, AccessError> reach(const Mr& mr, std::uint64_t offset, std::uint64_t length,
                                           std::uint32_t rights) const;
  Result<std::uint8_t*, AccessError> resolve_null(std::uint64_t length, std::uint32_t rights) const;

  UserMemory& memory_;
  /// What null regions read and write. As long as the longest packet's payload, which is what is copied at a time.
  struct Nothing {
    std::array<std::uint8_t, 4096> zeros{}, sink{};
  };
  mutable std::unique_ptr<Nothing> nothing_;

  // The name of an index is index * name_factor_ + name_offset_, of 24 bits.
  static constexpr std::uint32_t kNames = 0xFFFFFF;
  std::uint32_t name_factor_ = 1, name_inverse_ = 1, name_offset_ = 0;
  std::uint64_t seed_;

  std::uint32_t max_mrs_;
  std::uint32_t count_ = 0;
  std::uint32_t windows_ = 0;
  std::array<Mw*, 256> bound_{};   ///< Windows of type 2 that are bound, in lists: few for a QP that goes to look at.
  std::vector<Entry> entries_{1};  ///< By index. Index 0 is never used, nor the name 0: no key is below 256.
  /// Indices that are free, the longest-free first: linked, as to free one must not take memory.
  std::uint32_t first_free_ = 0, last_free_ = 0;
  std::size_t free_ = 0;
};

}  // namespace uroce::nic
