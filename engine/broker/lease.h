// SPDX-License-Identifier: Apache-2.0
// A lease of a slot, as the NIC that has it sees it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/broker/cm_steering.h"
#include "engine/broker/inquiry.h"
#include "engine/os/background_thread.h"
#include "engine/os/waiter.h"
#include "engine/port/udp_socket.h"

namespace uroce::engine {

/// Keeps a slot of one address for this process. When the broker is gone (killed), a thread finds or starts another one
/// and tells it which slot is taken; packets flow all the while. It waits for the reply as long as that broker lives,
/// even if it is stopped. When all that fails, it tries again, every second or so: the slot stays ours, and a process
/// that comes meanwhile hears that the address is in use.
class Lease {
 public:
  /// Leases a slot of `local`, or `slot` if there is one; starts the broker (`executable`) when there is none. Waits
  /// for it some seconds at most. Errors: EADDRINUSE; EADDRNOTAVAIL; EBUSY: somebody has `slot`; ECHILD: there is no
  /// broker and none can be started; EPROTONOSUPPORT: none of this version can; EMFILE: the process has no room for its
  /// descriptors.
  static Result<std::unique_ptr<Lease>, SetupError> acquire(const proto::Gid& local, std::optional<std::uint8_t> slot,
                                                            std::string executable);
  /// Ends the lease. The socket must be closed by now. When it was the last one, the address is free on return.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::uint8_t slot() const { return slot_; }
  const proto::Gid& local() const { return local_; }
  /// Has management packets reach their processes (cm_steering.h), and requests for `service` this one.
  int steer_management() const { return engine::steer_management(claims_.get(), slot_, steering_.get()); }
  Result<Fd, int> claim_service(std::uint32_t service) const {
    return engine::claim_service(claims_.get(), service, slot_, steering_.get());
  }
  /// See BrokerReply.
  std::uint16_t first_local() const { return first_local_; }
  /// The slot's socket, once.
  ReceiveSocket take_socket() { return adopt_receive_socket(std::move(socket_), local_); }

  // Around fork(): the lease is the parent's, and ends with it. Nothing waits for a broker.
  void before_fork() { mutex_.lock(); }
  void after_fork_in_parent() { mutex_.unlock(); }
  /// Afterwards only the destructor may be called.
  void after_fork_in_child();

 private:
  Lease(const proto::Gid& local, std::string executable) : local_(local), executable_(std::move(executable)) {}
  void keep();
  void renew();

  const proto::Gid local_;
  const std::string executable_;
  std::uint8_t slot_ = 0;
  std::uint16_t first_local_ = 0;
  Fd socket_;
  Fd steering_;  ///< The same socket, once more.
  Fd bag_;
  Fd claims_;  ///< Who listens for what at the address (claims.h).
  Waiter waiter_;
  std::mutex mutex_;  ///< Guards what follows, against a fork() too. Nobody waits with it.
  Fd connection_;
  std::optional<Inquiry> renewal_;  ///< Under way.
  Instant renew_at_{};              ///< Without a connection: not before.
  Duration renew_again_{};          ///< After how long, should it fail.
  bool stop_ = false;
  bool abandoned_ = false;
  std::unique_ptr<BackgroundThread> thread_;
};

/// The same slot of several addresses.
struct SlotLeases {
  std::uint8_t slot = 0;
  std::uint16_t first_local = 0;
  std::vector<std::unique_ptr<Lease>> leases;  ///< By address.
};

/// Leases a slot that is free at all of `addresses` (at least one). Errors as Lease::acquire().
Result<SlotLeases, SetupError> acquire_slot(std::span<const proto::Gid> addresses, const std::string& executable);

}  // namespace uroce::engine
