// SPDX-License-Identifier: Apache-2.0
// A question to the broker of an address, from finding or starting it to its reply, in steps that do not block.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "engine/broker/protocol.h"
#include "engine/broker/start_broker.h"
#include "engine/os/os_clock.h"
#include "proto/base/result.h"

namespace uroce::engine {

class Inquiry {
 public:
  /// A broker's reply, what came with it, and the connection, which is the lease.
  struct Answer {
    Fd connection;
    BrokerReply reply;
    std::vector<Fd> descriptors;
  };

  /// For everything that a broker does before it answers, on a busy machine.
  static constexpr Duration kPatience = std::chrono::seconds(10);

  /// `descriptors` go along with the request. They must stay open. A kKeepSlot that has been sent is waited
  /// for without end: a broker that reads it when we have left takes the slot from a NIC that lives.
  Inquiry(const proto::Gid& local, const std::string& executable, const BrokerRequest& request,
          std::vector<int> descriptors = {}, Duration patience = kPatience);

  /// Does what can be done now; true when the inquiry has come to its end. To be called at first, when `fd()` becomes
  /// readable, and at `next()`; at other times it does no harm. Blocks for as long as it takes to start a process.
  bool advance();
  int fd() const;                         ///< -1: only time will help.
  Instant next() const { return next_; }  ///< Instant::max(): only the descriptor will help.
  /// The answer, after the end. Errors are ours and not of the reply: EADDRINUSE, ECHILD (there is no broker and none
  /// can be started), EPROTONOSUPPORT (none of this version can), or what the kernel says.
  Result<Answer, SetupError>& result() { return *result_; }

 private:
  void connect();
  void start();
  void await_start();
  void await_reply();
  void after_other_version();
  bool gives_up_on_stranger();
  void fail(SetupError error) { result_ = Err{std::move(error)}; }
  void try_again_soon();

  const proto::Gid local_;
  const std::string executable_;
  const BrokerRequest request_;
  const std::vector<int> descriptors_;
  const Instant deadline_;
  Instant next_;
  Fd connection_;                     ///< Asked, no reply yet; until `next_`.
  std::optional<BrokerStart> start_;  ///< Under way.
  int vanished_ = 0;                  ///< Brokers that were started and ended silently.
  bool has_started_ = false;          ///< One, which listened.
  std::optional<Answer> refused_;     ///< By a broker of another version, on this connection.
  Instant refused_until_{};           ///< Since it was first refused so: such a broker may end by then.
  std::optional<Result<Answer, SetupError>> result_;
};

}  // namespace uroce::engine
