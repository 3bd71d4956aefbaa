// Memory regions and the keys that name them. lkey = rkey = index << 8 | tag, the tag changing with every use of an
// index, so that a stale key of a deregistered region does not fit its successor. Every access of the NIC to user
// memory goes through resolve(): bounds, rights and PD are checked before a byte is touched.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "proto/base/result.h"
#include "verbs/nic/types.h"

namespace uroce::nic {

/// Protection domain: an identity that objects share.
struct Pd {
  std::uint32_t users = 0;  ///< MRs, QPs, ... in it: a PD in use can't be deallocated.
};

/// kOnDemand: its memory may come and go, and is asked for at each access. kNull: reads give zeros, writes go nowhere;
/// only for local use.
enum class MrKind : std::uint8_t { kPlain, kOnDemand, kNull };

struct Mr {
  Pd* pd = nullptr;
  std::uint8_t* memory = nullptr;  ///< Where the region's first byte lies.
  std::uint64_t length = 0;
  std::uint64_t iova = 0;    ///< The address by which WRs and peers name the first byte.
  std::uint32_t access = 0;  ///< Access bits. Local read is always granted.
  std::uint32_t key = 0;     ///< lkey and rkey.
  MrKind kind = MrKind::kPlain;
};

enum class AccessError : std::uint8_t { kBadKey, kWrongPd, kOutOfBounds, kNoRight };

class MrTable {
 public:
  explicit MrTable(std::uint32_t max_mrs);
  ~MrTable();

  /// Registers memory. EINVAL: length 0, a range that wraps around, unknown access bits, or remote write/atomic without
  /// local write (IBTA Vol 1, 10.6.3.1, and every provider); ENOMEM: table full. The PD's user count goes up.
  Result<Mr*, Errno> add(Pd* pd, std::uint8_t* memory, std::uint64_t length, std::uint64_t iova, std::uint32_t access,
                         MrKind kind = MrKind::kPlain);
  void remove(Mr* mr);
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
  Errno change(Mr* mr, const Change& change);

  /// Memory behind [va, va + length) of the region named by `key`, if it belongs to `pd` and grants all of `rights`
  /// (Access bits; 0 = local read). length 0 is the caller's case: it needs no key (IBTA C9-88).
  Result<std::uint8_t*, AccessError> resolve(std::uint32_t key, std::uint64_t va, std::uint64_t length, const Pd* pd,
                                             std::uint32_t rights) const;
  std::uint32_t size() const { return count_; }

  /// Tells whether the memory of on-demand regions can be read, or written, at the moment.
  using Probe = std::function<bool(const std::uint8_t* memory, std::uint64_t length, bool write)>;
  void set_probe(Probe probe) { probe_ = std::move(probe); }

 private:
  static constexpr std::size_t kRestingIndices = 256;
  struct Slot {
    std::unique_ptr<Mr> mr;
    std::uint8_t tag = 0;
  };
  std::uint32_t take_index();
  std::uint32_t key_of(std::uint32_t index) const;

  Result<std::uint8_t*, AccessError> resolve_null(std::uint64_t length, std::uint32_t rights) const;

  Probe probe_;
  /// What null regions read and write. As long as the longest packet's payload, which is what is copied at a time.
  struct Nothing {
    std::array<std::uint8_t, 4096> zeros{}, sink{};
  };
  mutable std::unique_ptr<Nothing> nothing_;

  std::uint32_t max_mrs_;
  std::uint32_t count_ = 0;
  std::vector<Slot> slots_{1};      ///< By index. Index 0 is never used: keys below 256 are nobody's.
  std::deque<std::uint32_t> free_;  ///< Longest-free first.
};

}  // namespace uroce::nic
