// SPDX-License-Identifier: Apache-2.0
// The verbs that were called while a capture was taken, as its JSON file lists them: "post qp=qp op=send wr=1
// sge=mr:0:8192 defer=0". The language is that of the shell that drove libibverbs in the lab.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace uroce::replay {

/// Which endpoint of a capture: A is the requester (but for a topic in which both send), B the responder.
enum class Side : std::uint8_t { kA, kB };
constexpr char letter(Side side) { return side == Side::kA ? 'A' : 'B'; }

class Command {
 public:
  Command(Side at, const std::string& line, const nlohmann::json* reply);

  Side at() const { return at_; }
  const std::string& verb() const { return verb_; }
  const std::string& line() const { return line_; }
  const nlohmann::json& reply() const { return *reply_; }
  bool has(const std::string& name) const { return arguments_.contains(name); }
  /// An argument's text; empty when it is not given.
  std::string text(const std::string& name) const;
  /// An argument as a number, decimal or 0x.
  std::uint64_t number(const std::string& name, std::uint64_t otherwise) const;
  /// True when the argument is a list ("sig,sol") with `word` in it.
  bool lists(const std::string& name, const std::string& word) const;

 private:
  Side at_;
  std::string line_;
  std::string verb_;
  std::map<std::string, std::string> arguments_;
  const nlohmann::json* reply_;
};

/// "a,b" as {"a", "b"}.
std::vector<std::string> split(const std::string& text, char separator);

/// The commands of "setup" or "commands_after_setup", of both sides.
std::vector<Command> commands(const nlohmann::json& sidecar, const std::string& part);

}  // namespace uroce::replay
