// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/conformance/document.h"

#include <optional>
#include <utility>

#include "tests/judged/conformance/case.h"

namespace uroce::conformance {
namespace {

/// Text for a cell of a Markdown table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '*') out += '\\';
    out += c;
  }
  return out;
}

constexpr std::pair<Relation, const char*> kMeanings[] = {
    {Relation::kSame, "the same as rxe"},
    {Relation::kSpecification, "**specification**: rxe departs from it, or from what the manual of the verb says"},
    {Relation::kChoice, "**choice**: both are right"},
    {Relation::kNotOffered, "not offered yet"},
    {Relation::kNoNetdev, "**no netdev**: ours is a process with UDP sockets"},
};

constexpr const char* kIntroduction =
    R"(For each case: the rule and its source, what uroce does, and what Linux's Soft-RoCE does (rxe of kernel 6.12, rdma-core 44).
`ctest -L conformance` measures "ours", and fails when the result is not what this page says. "rxe" was measured with the same steps
between two virtual machines.

A cell has the result of the call (errno, and the work request that `bad_wr` names), then completions (status, wr_id; length and
operation when they succeed), then the state of the QP. A is the requester, B the responder. "IBTA Vol 1" is the InfiniBand Architecture
Specification; a "?" after a clause marks a number that nothing confirmed: the reading is ours.

`conformance_document` prints this page from the table in `tests/judged/conformance`: edit there.
)";

int count(std::optional<Relation> relation) {
  int cases = 0;
  for (const Chapter& chapter : table()) {
    for (const Case& c : chapter.cases) cases += !relation || c.why.relation == *relation ? 1 : 0;
  }
  return cases;
}

std::string count_row(const char* what, int cases) {
  return std::string("| ") + what + " | " + std::to_string(cases) + " |\n";
}

const char* heading(Relation relation) {
  switch (relation) {
    case Relation::kSame:
      return "";
    case Relation::kSpecification:
      return "**specification:** ";
    case Relation::kChoice:
      return "**choice:** ";
    case Relation::kNotOffered:
      return "";
    case Relation::kNoNetdev:
      return "**no netdev:** ";
  }
  return "";
}

std::string row(const Case& c) {
  return "| " + cell(c.name) + " | " + cell(c.rule.text) + " (" + cell(c.rule.source) + ") | " + cell(c.ours) + " | " +
         cell(c.rxe) + " | " + heading(c.why.relation) + c.why.reason + " |\n";
}

}  // namespace

const std::vector<Chapter>& table() {
  static const std::vector<Chapter> chapters{
      qp_states(),  qp_attributes(),  posting_by_state(), work_requests(), queues_and_keys(), completion_queues(),
      life_cycle(), memory_regions(), capacities(),       datagrams(),     memory_windows(),  port()};
  return chapters;
}

std::string document() {
  std::string out = "# Conformance\n\n";
  out += kIntroduction;
  out += "\n| | cases |\n| --- | --- |\n";
  for (const auto& [relation, meaning] : kMeanings) out += count_row(meaning, count(relation));
  out += count_row("all", count(std::nullopt));
  for (const Chapter& chapter : table()) {
    out += std::string("\n## ") + chapter.title +
           "\n\n| case | rule and source | ours | rxe | why different |\n| --- | --- | --- | --- | --- |\n";
    for (const Case& c : chapter.cases) out += row(c);
  }
  return out;
}

}  // namespace uroce::conformance
