// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/nic/reference_page.h"

#include <cstdio>
#include <vector>

#include "proto/opcodes.h"
#include "verbs/nic/model/qp_state.h"
#include "verbs/nic/model/trace.h"
#include "verbs/nic/transport/rc/responder.h"

namespace uroce::test {
namespace {

using nic::QpState;
using nic::QpType;

constexpr const char* kHead = R"(# The NIC in tables

This page is printed from the tables that make the NIC what it is (`build/release/bin/nic_reference > docs/nic.md`); `ctest -L nic`
fails when it is out of date. In words: [architecture.md](architecture.md).

)";

class Table {
 public:
  explicit Table(std::string& page, const std::vector<std::string>& columns) : page_(page) {
    row(columns);
    row(std::vector<std::string>(columns.size(), "---"));
  }
  void row(const std::vector<std::string>& cells) {
    page_ += '|';
    for (const std::string& cell : cells) page_ += ' ' + cell + (cell.empty() ? "|" : " |");
    page_ += '\n';
  }

 private:
  std::string& page_;
};

std::string code(const std::string& text) { return text.empty() ? "" : '`' + text + '`'; }

std::string hex(unsigned number) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02X", number);
  return text;
}

constexpr const char* kStates[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
constexpr std::uint32_t kAttributes = 21;
constexpr const char* kAttributeNames[kAttributes] = {"STATE",
                                                      "CUR_STATE",
                                                      "EN_SQD_ASYNC_NOTIFY",
                                                      "ACCESS_FLAGS",
                                                      "PKEY_INDEX",
                                                      "PORT",
                                                      "QKEY",
                                                      "AV",
                                                      "PATH_MTU",
                                                      "TIMEOUT",
                                                      "RETRY_CNT",
                                                      "RNR_RETRY",
                                                      "RQ_PSN",
                                                      "MAX_QP_RD_ATOMIC",
                                                      "ALT_PATH",
                                                      "MIN_RNR_TIMER",
                                                      "SQ_PSN",
                                                      "MAX_DEST_RD_ATOMIC",
                                                      "PATH_MIG_STATE",
                                                      "CAP",
                                                      "DEST_QPN"};

/// The attributes whose lack, or whose presence, makes check_transition() object.
std::string attributes(QpType type, QpState from, QpState to, bool required) {
  using Code = nic::TransitionVerdict::Code;
  const auto needed = [&] {
    const auto verdict = check_transition(type, from, to, nic::kAttrState);
    return verdict.code == Code::kMissingAttr ? verdict.offending : 0u;
  }();
  std::string names;
  for (std::uint32_t bit = 1; bit < kAttributes; ++bit) {
    const std::uint32_t mask = 1u << bit;
    const bool is_needed = (needed & mask) != 0;
    const bool is_optional =
        !is_needed && check_transition(type, from, to, nic::kAttrState | needed | mask).code == Code::kOk;
    if (required ? is_needed : is_optional) names += (names.empty() ? "" : ", ") + std::string(kAttributeNames[bit]);
  }
  return names;
}

void states(std::string& page) {
  page += "## QP states\n\n";
  page +=
      "```\n"
      "                 +------------------------------------------------ any state --> RESET, ERR\n"
      "   RESET --> INIT --> RTR --> RTS <--> SQD\n"
      "                               ^-- SQE <-- a send of a UC or UD QP failed\n"
      "```\n\n";
  Table may(page,
            {"state", "post send", "post receive", "takes requests", "starts requests", "takes responses", "flushes"});
  for (std::size_t i = 0; i < std::size(kStates); ++i) {
    const nic::StateRights& r = nic::rights(static_cast<QpState>(i));
    const auto yes = [](bool right) { return std::string(right ? "yes" : ""); };
    may.row({kStates[i], yes(r.post_send), yes(r.post_recv), yes(r.respond), yes(r.request), yes(r.complete),
             r.flush_send && r.flush_recv ? "both queues"
             : r.flush_send               ? "sends"
                                          : ""});
  }
  page += "\nEvery modify names its state; RESET and ERR take nothing else.\n\n";
  Table table(page, {"type", "from", "to", "needs", "may have"});
  constexpr std::pair<QpType, const char*> kTypes[] = {{QpType::kRc, "RC"}, {QpType::kUc, "UC"}, {QpType::kUd, "UD"}};
  for (const auto& [type, name] : kTypes) {
    for (std::size_t from = 0; from < std::size(kStates); ++from) {
      for (std::size_t to = 1; to + 1 < std::size(kStates); ++to) {
        const auto f = static_cast<QpState>(from), t = static_cast<QpState>(to);
        if (check_transition(type, f, t, nic::kAttrState).code == nic::TransitionVerdict::Code::kIllegalTransition)
          continue;
        table.row({name, kStates[from], kStates[to], attributes(type, f, t, true), attributes(type, f, t, false)});
      }
    }
  }
}

void opcodes(std::string& page) {
  page += "\n## Opcodes\n\n";
  Table table(page, {"code", "name", "headers", "payload", "takes a receive"});
  for (const proto::OpcodeInfo& op : proto::kOpcodes) {
    std::string headers;
    for (std::size_t i = 0; i < op.stack.count; ++i) {
      headers += (i == 0 ? "" : ", ") + std::string(proto::header_info(op.stack.ids[i]).name);
    }
    table.row({hex(static_cast<unsigned>(op.code)), std::string(op.name), headers, op.has_payload ? "yes" : "",
               op.consumes_receive ? "yes" : ""});
  }
}

void checks(std::string& page) {
  page +=
      "\n## What an RC responder checks\n\nIn this order (IBTA Vol 1, 9.7.4.1); the first check that objects decides. "
      "The number is that of the event `refused`.\n\n";
  Table table(page, {"number", "check", "when it objects"});
  unsigned number = 0;
  for (const auto& check : nic::Responder::check_facts())
    table.row({std::to_string(number++), check.name, check.objection});
}

void counters(std::string& page) {
  page +=
      "\n## Counters\n\nFiles of `/sys/class/infiniband/uroceN/ports/1/hw_counters`, fields of `nic::Counters`.\n\n";
  Table table(page, {"name", "also as", "what is counted"});
#define UROCE_COUNTER(name, also, meaning) table.row({code(#name), code(also), meaning});
#include "verbs/nic/model/events.def"
}

void events(std::string& page) {
  page +=
      "\n## Events\n\nA `nic::TraceSink` (`NicConfig::trace`) receives these events, each with a time, a QPN and up to "
      "two "
      "numbers. An event with a counter\nadds 1 to it.\n\n";
  Table table(page, {"event", "numbers", "counter", "what happened"});
  const auto numbers = [](const char* a, const char* b) {
    return std::string(a) + (*b != '\0' ? std::string(", ") + b : "");
  };
  const auto counter = [](const std::string& name) { return name == "none" ? "" : code(name); };
#define UROCE_EVENT(id, name, counted, a, b, meaning) \
  table.row({code(name), numbers(a, b), counter(#counted), meaning});
#include "verbs/nic/model/events.def"
}

}  // namespace

std::string reference_page() {
  std::string page = kHead;
  states(page);
  opcodes(page);
  checks(page);
  counters(page);
  events(page);
  return page;
}

}  // namespace uroce::test
