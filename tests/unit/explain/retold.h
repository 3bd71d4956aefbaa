// SPDX-License-Identifier: Apache-2.0
// A capture told, for tests: what is noted, counted.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/explain/packets/both_ends.h"
#include "tools/explain/story/story.h"

namespace uroce::explain::test {

struct Line {
  Packet packet;
  Told told;
};

struct Retold {
  std::vector<Line> lines;
  std::unique_ptr<Names> names;
  std::unique_ptr<Story> story;
  std::vector<FileFacts> files;

  /// "nak:5 nak_sequence:1": how many packets were sent again for which reason ("?": probably), and the codes of the
  /// problems noted, in order of name; empty when all went well.
  std::string counts() const;
  std::uint64_t noted(const std::string& code) const;
};

/// Files of pcaps/ ("rxe/loss_nak.atA"), those of both ends or one.
Retold retell(const std::vector<std::string>& captures);
/// Bytes of a capture file, or of those of both ends.
Retold retell_bytes(std::vector<std::uint8_t> bytes, bool live = false);
Retold retell_files(std::vector<std::vector<std::uint8_t>> files, bool live = false);
std::vector<std::uint8_t> read_capture(const std::string& name);
/// All captures below pcaps/, by name.
std::vector<std::string> all_captures();

}  // namespace uroce::explain::test
