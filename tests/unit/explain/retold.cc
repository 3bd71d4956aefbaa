// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/explain/retold.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace uroce::explain::test {
namespace {

std::filesystem::path captures_dir() { return std::filesystem::path(UROCE_SOURCE_DIR) / "pcaps"; }

Retold tell_all(BothEnds& captures, bool many) {
  Retold result;
  result.names = std::make_unique<Names>(many);
  result.story = std::make_unique<Story>(*result.names);
  while (auto packet = captures.next()) {
    Told told = result.story->tell(*packet);
    result.lines.push_back({std::move(*packet), std::move(told)});
  }
  result.story->finish();
  result.files = captures.facts();
  return result;
}

}  // namespace

std::string Retold::counts() const {
  std::map<std::string, int> counts;
  for (const Line& line : lines) {
    const Reason reason = line.told.reason;
    const bool usual = reason == Reason::kFirst || reason == Reason::kAnswer || reason == Reason::kManagement ||
                       reason == Reason::kNone;
    if (!usual) ++counts[std::string(to_string(reason)) + (line.told.sure ? "" : "?")];
    for (const Note& note : line.told.notes) {
      if (note.severity >= Severity::kProblem) ++counts[note.code];
    }
  }
  std::string text;
  for (const auto& [name, count] : counts) text += (text.empty() ? "" : " ") + name + ":" + std::to_string(count);
  return text;
}

std::uint64_t Retold::noted(const std::string& code) const {
  std::uint64_t count = 0;
  for (const Line& line : lines) {
    for (const Note& note : line.told.notes) count += note.code == code ? 1u : 0u;
  }
  return count;
}

std::vector<std::uint8_t> read_capture(const std::string& name) {
  std::ifstream file(captures_dir() / (name + ".pcap"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Retold retell(const std::vector<std::string>& captures) {
  BothEnds both;
  for (const std::string& name : captures) {
    const auto wrong = both.open((captures_dir() / (name + ".pcap")).string(), false);
    if (wrong) std::fprintf(stderr, "%s\n", wrong->c_str());
  }
  return tell_all(both, captures.size() > 1);
}

Retold retell_bytes(std::vector<std::uint8_t> bytes, bool live) {
  std::vector<std::vector<std::uint8_t>> files;
  files.push_back(std::move(bytes));
  return retell_files(std::move(files), live);
}

Retold retell_files(std::vector<std::vector<std::uint8_t>> files, bool live) {
  BothEnds both(live);
  for (std::size_t i = 0; i < files.size(); ++i) {
    auto capture = Capture::open(Input(std::move(files[i])), "bytes", static_cast<std::uint32_t>(i));
    if (capture) both.add(std::move(*capture));
  }
  return tell_all(both, files.size() > 1);
}

std::vector<std::string> all_captures() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(captures_dir())) {
    if (entry.path().extension() != ".pcap") continue;
    names.push_back(entry.path().lexically_relative(captures_dir()).replace_extension().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace uroce::explain::test
