// The broker of one address: holds the sockets of its slots and leases them to NICs, which are processes of the same
// user. Nothing of the data path comes by here.
//
// A broker that is started while processes of a killed one still use the address waits for them: they come by
// themselves (Lease), and bring the sockets.
#pragma once

#include <optional>
#include <vector>

#include "engine/broker/protocol.h"
#include "engine/broker/slot_group.h"
#include "engine/os_clock.h"

namespace uroce::engine {

class Broker {
 public:
  /// Takes the name of the broker for `local`; connections queue up from then on. Error EADDRINUSE: there is one
  /// already.
  static Result<Broker, SetupError> listen(const proto::Gid& local);
  /// Serves until nobody has a lease any more, or nobody came at all for some seconds.
  void run();

 private:
  struct Connection {
    Fd fd;
    bool is_done = false;                  ///< To be closed.
    std::optional<BrokerRequest> waiting;  ///< Until there is a group.
    std::optional<std::uint8_t> slot;      ///< Leased.
  };

  Broker(const proto::Gid& local, Fd listener);
  void look_for_group(Instant now);
  void accept_all();
  void read_from(Connection& connection);
  void answer(Connection& connection, const BrokerRequest& request);
  void keep(Connection& connection, std::uint8_t slot, Fd bag);
  void hand_over(Connection& connection, std::uint8_t slot);
  void refuse(Connection& connection, const SetupError& error);
  bool is_settled() const { return group_ || failure_; }

  proto::Gid local_;
  Fd listener_;
  Instant started_;
  std::vector<Connection> connections_;
  std::vector<Fd> leaving_;  ///< Of those who wait until the address is free, should they have been the last.
  std::optional<SlotGroup> group_;
  std::optional<SetupError> failure_;  ///< Why there is none.
};

}  // namespace uroce::engine
