// SPDX-License-Identifier: Apache-2.0
// The connection (TCP; with --cm an rsocket) beside the RDMA traffic: framed messages to and from the peer, and the
// first to know when its process is gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/control/messages.h"
#include "tools/control/socket.h"
#include "tools/rdma/failure.h"

namespace uroce::tools {

struct Message {
  MessageType type = MessageType::kAbort;
  std::vector<std::uint8_t> payload;
};

/// How long each side waits for the other's next message.
inline constexpr std::chrono::seconds kPatience{30};
/// How long a server waits for the greeting, which a client sends at once: other clients are waiting meanwhile, whose
/// patience must last longer.
inline constexpr std::chrono::seconds kGreetingPatience{10};

class Control {
 public:
  /// `peer_role` is how sentences name the peer: "the server".
  Control(Connection connection, std::string peer_role);

  /// Sends a message; what the kernel does not take at once goes out with later calls.
  void send(MessageType type, Bytes payload = {});
  /// The next message if one has arrived. Never waits. Throws Failure when the peer gives up (Abort) or speaks another
  /// protocol. After the end of the connection: nothing, and closed().
  std::optional<Message> poll();
  /// Waits for a message of `type`. Throws Failure when anything else comes, or nothing within `patience`.
  std::vector<std::uint8_t> expect(MessageType type, std::chrono::seconds patience = kPatience);
  /// Waits until every other message of the peer has a chance to arrive, at most `span`; for judging a failure.
  /// Returns whether the connection has ended.
  bool ended_within(std::chrono::milliseconds span);

  /// Tells the peer why we give up, and closes in a way that lets it read that. Never throws, hardly waits.
  void abort(const std::string& sentence) noexcept;

  /// Waits until `fd` is readable. Throws Failure when the peer gives up or ends the connection first, or nothing comes
  /// within kPatience.
  void await_readable(int fd);

  bool closed() const { return closed_; }
  const Socket& socket() const { return connection_.socket; }
  /// What people call the connection: "TCP", "RDMA CM".
  std::string_view network() const { return socket().calls().name; }
  const std::string& peer_role() const { return peer_role_; }
  const std::string& peer_address() const { return connection_.peer; }
  /// Our address of the connection, and whether the peer is on this host.
  const std::string& local_address() const { return connection_.local; }
  bool is_local() const { return connection_.is_local; }
  /// What a Failure that the peer causes means for our exit status: set-up until here, the transfer from now on.
  void enter_transfer() { failure_code_ = kExitFailed; }

 private:
  void read_available();
  bool flush();
  std::optional<Message> next_message();

  Connection connection_;
  std::string peer_role_;
  ExitCode failure_code_ = kExitUsage;
  bool closed_ = false;
  std::vector<std::uint8_t> in_;
  std::vector<std::uint8_t> out_;
};

/// Sends our message and takes the peer's of the same type: both sides do it at the same time.
void barrier(Control& control);
PeerMetadata exchange_metadata(Control& control, const PeerMetadata& local);
Hello exchange_hello(Control& control, const Hello& local, std::chrono::seconds patience = kPatience);

}  // namespace uroce::tools
