// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/model/trace.h"

#include <string_view>

#include "proto/base/check.h"
#include "proto/syndrome.h"
#include "verbs/nic/model/names.h"

namespace uroce::nic {
namespace {

struct Row {
  const char *name, *a, *b;
};

constexpr Row kRows[] = {
#define UROCE_EVENT(id, name, counter, a, b, meaning) {name, a, b},
#include "verbs/nic/model/events.def"
};

const Row& row(TraceKind kind) {
  UROCE_ASSERT(kind < TraceKind::kCount);
  return kRows[static_cast<std::size_t>(kind)];
}

/// What `value` is called in a field of this name; "" for plain numbers. Rings of other processes hold any value.
std::string_view word_for(std::string_view name, std::uint64_t value) {
  if (value > 0xFF) return "";
  const auto small = static_cast<std::uint8_t>(value);
  if (name == "from" || name == "to") return to_string(QpState{small});
  if (name == "status") return to_string(WcStatus{small});
  if (name == "code" && proto::NakCode{small} <= proto::NakCode::kInvalidRdRequest) {
    return to_string(proto::NakCode{small});
  }
  return "";
}

void append(std::string& line, const char* name, std::uint64_t value) {
  if (*name == '\0') return;
  const std::string_view word = word_for(name, value);
  line.append(" ").append(name).append("=");
  if (word.empty() || word == "?") {
    line.append(std::to_string(value));
  } else {
    line.append(word);
  }
}

}  // namespace

void Trace::tell(TraceKind kind, std::uint32_t qpn, std::uint64_t a, std::uint64_t b) const {
  sink_->on_event({now, kind, qpn, a, b});
}

const char* name_of(TraceKind kind) { return row(kind).name; }

std::string to_string(const TraceEvent& event) {
  const Row& facts = row(event.kind);
  std::string line = facts.name;
  if (event.qpn != 0) append(line, "qpn", event.qpn);
  append(line, facts.a, event.a);
  append(line, facts.b, event.b);
  return line;
}

}  // namespace uroce::nic
