// SPDX-License-Identifier: Apache-2.0
// Where the story goes: text for people, JSON for programs, a page for browsers.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/explain/packets/both_ends.h"
#include "tools/explain/story/story.h"

namespace uroce::explain {

/// What a flight recorder says of an error.
struct Verdict {
  std::int64_t time_ns = 0;
  std::string sentence;
  std::string place;  ///< "rdma_client[27323], uroce0, 127.0.0.2; recording ..."
};

/// What is to be told.
struct Filter {
  std::optional<std::uint32_t> qpn;
  std::optional<proto::Gid> peer;
  bool only_problems = false;

  bool takes(const Connection* connection, const Packet& packet) const;
  bool takes(const Connection& connection) const;
};

class Output {
 public:
  virtual ~Output() = default;
  /// Before everything else: what recorders say.
  virtual void begin(const std::vector<Verdict>& /*verdicts*/) {}
  /// Whether it tells single packets and messages, not only the end.
  virtual bool wants_packets() const { return true; }
  /// Each packet that the filter takes, in the order of the story.
  virtual void packet(const Packet& packet, const Told& told, const Story& story) = 0;
  /// Each message of the connections that the filter takes, when it is completed.
  virtual void finished(const Finished& /*message*/, std::uint32_t /*connection*/, const Story& /*story*/) {}
  /// A warning that concerns everything.
  virtual void warn(const std::string& text) = 0;
  virtual void end(const Story& story, const std::vector<FileFacts>& files) = 0;
  /// Everything so far is to be seen.
  virtual void flush() {}
  /// What went wrong with the file that it writes; empty when nothing did so far.
  virtual std::string error() const { return {}; }
};

}  // namespace uroce::explain
