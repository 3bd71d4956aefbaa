// SPDX-License-Identifier: Apache-2.0
// Where our NIC is allowed to do otherwise than rxe, and what of the captures is not replayed. The one place for both;
// docs/golden.md shows the same tables. A row that nothing uses fails the test.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tests/judged/replay/replay.h"

namespace uroce::replay {

/// In topics, rxe and ours '*' stands for any text and '?' for any character. Topics are separated by spaces.
struct AllowedDifference {
  std::string_view topics;
  std::string_view sides;  ///< "A", "B" or "AB": in whose place our NIC was.
  std::string_view aspect;
  std::string_view rxe;
  std::string_view ours;
  std::string_view why;
};
std::span<const AllowedDifference> allowed_differences();

/// The row that allows a difference, or nullptr.
const AllowedDifference* allowed(const std::string& topic, Side side, const Difference& difference);

struct NotReplayed {
  std::string_view topics;
  std::string_view sides;
  std::string_view why;
};
std::span<const NotReplayed> not_replayed();

/// The row that excuses a topic, or nullptr: it is replayed.
const NotReplayed* excused(const std::string& topic, Side side);

/// True when `text` fits `pattern`.
bool fits(std::string_view pattern, std::string_view text);

/// Both tables in Markdown, as docs/golden.md has them.
std::string markdown();

}  // namespace uroce::replay
