// SPDX-License-Identifier: Apache-2.0
// The commands of fuzz_cm: messages of strangers and of peers, calls of the program, time. See archive.h.
#pragma once

#include "tests/judged/fuzz/archive.h"

namespace uroce::fuzz {

enum CmCommand : std::uint8_t { kCmMessage, kCmRaw, kCmCall, kCmTime, kCmCommands };

/// A message that is right in every field, but for what is said here; then patches of two bytes, {offset, value}, into
/// the part behind the MAD header.
struct CmMessageSpec {
  std::uint8_t attribute = 0;  ///< From REQ on: 0 REQ, 1 MRA ...
  std::uint8_t source = 0;     ///< Which of the strangers.
  std::uint8_t sender_id = 0;  ///< Its communication ID.
  std::uint8_t ours = 0;       ///< Which ID of ours it names: 0 the newest, 1 the one before ...; 255: none.
  std::uint8_t qpn = 0;
  std::uint16_t service = 0;  ///< 0 for RC, 1 for UC, 2 for UD, others nobody serves.
  void fields(auto& archive) {
    archive(attribute), archive(source), archive(sender_id), archive(ours), archive(qpn), archive(service);
  }
};

struct CmCallSpec {
  std::uint8_t call = 0;
  std::uint8_t ours = 0;  ///< As above.
  std::uint8_t value = 0;
  void fields(auto& archive) { archive(call), archive(ours), archive(value); }
};

struct CmTimeSpec {
  std::uint8_t log2_ms = 0;  ///< 255: until the next deadline.
  void fields(auto& archive) { archive(log2_ms); }
};

}  // namespace uroce::fuzz
