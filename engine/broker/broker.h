// SPDX-License-Identifier: Apache-2.0
// The broker of one address: holds the sockets of its slots and leases them to NICs, which are processes of the same
// user. Nothing of the data path comes by here. Connections of other users, and those that ask nothing, are closed
// at once: they take neither descriptors nor time.
//
// A broker that is started while processes of a killed one still use the address waits for them: they come by
// themselves (Lease), and bring the sockets.
#pragma once

#include <optional>
#include <vector>

#include "engine/broker/protocol.h"
#include "engine/broker/slot_table.h"
#include "engine/os/os_clock.h"

namespace uroce::engine {

class Broker {
 public:
  /// Takes the name of the broker for `local`; connections queue up from then on. Error EADDRINUSE: there is one
  /// already; ECHILD: users can't be told apart here.
  static Result<Broker, SetupError> listen(const proto::Gid& local);
  /// Serves until nobody has a lease any more, or nobody came at all for some seconds.
  void run();

 private:
  struct Connection {
    Fd fd;
    Instant since;
    bool is_done = false;                  ///< To be closed.
    std::optional<BrokerRequest> waiting;  ///< Until the slots are there.
    std::optional<std::uint8_t> slot;      ///< Leased.
    bool is_silent() const { return !is_done && !waiting && !slot; }
  };

  Broker(const proto::Gid& local, uid_t user, Fd listener);
  void look_for_slots(Instant now);
  void accept_some(Instant now);
  bool can_accept(Instant now) const;
  void serve_connections(Instant now);
  void remove_done();
  void wait_and_read(Instant now);
  Instant next_deadline(Instant now) const;
  void read_from(Connection& connection);
  void answer(Connection& connection, const BrokerRequest& request);
  void keep(Connection& connection, std::uint8_t slot, std::vector<Fd> brought);
  void hand_over(Connection& connection, std::uint8_t slot);
  void refuse(Connection& connection, const SetupError& error);
  bool is_settled() const { return slots_ || failure_; }

  proto::Gid local_;
  uid_t user_;
  Fd listener_;
  Instant started_;
  Instant accept_again_;  ///< Not before: there were no descriptors.
  bool had_visitors_ = false;
  std::vector<Connection> connections_;
  std::vector<Fd> leaving_;  ///< Of processes that have left: kept until the address is free, for they may be the last.
  std::optional<SlotTable> slots_;
  std::optional<SetupError> failure_;  ///< Why there is none.
};

}  // namespace uroce::engine
