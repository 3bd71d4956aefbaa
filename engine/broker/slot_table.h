// SPDX-License-Identifier: Apache-2.0
// The slots of an address as their broker sees them: who has which, and which one is next.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "engine/broker/slots.h"

namespace uroce::engine {

class SlotTable {
 public:
  /// Opens the sockets of `local`. Errors as open_slot_sockets().
  static Result<SlotTable, SetupError> open(const proto::Gid& local);
  /// The slots whose sockets are in `bag`, and the claims that go with them. Slots that are not retired belong to
  /// processes that may come and say so; until then nobody gets them, however long it takes: they may be stopped.
  /// Nothing when this is no bag.
  static std::optional<SlotTable> from_bag(Fd bag, Fd claims);

  /// A free slot, the one that has been free for longest; nothing when all are taken.
  std::optional<std::uint8_t> lease_any();
  bool lease(std::uint8_t slot);
  /// For the process that has had this slot since before this broker: false when somebody else has it.
  bool keep(std::uint8_t slot);
  /// The slot's user is gone.
  void give_back(std::uint8_t slot);

  int socket(std::uint8_t slot) const { return sockets_[slot].get(); }
  int bag() const { return bag_.get(); }
  int claims() const { return claims_.get(); }
  /// Whether `bag` is the one of these sockets.
  bool is_bag(int bag) const;

 private:
  SlotTable(std::vector<Fd> sockets, Fd bag, Fd claims);

  std::vector<Fd> sockets_;  ///< By slot.
  Fd bag_;
  Fd claims_;
  std::array<bool, kSlots> leased_{};
  std::deque<std::uint8_t> free_;  ///< In the order in which they became free.
};

}  // namespace uroce::engine
