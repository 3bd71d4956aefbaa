// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/recordings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "proto/base/directory.h"
#include "verbs/record/store.h"

namespace uroce::explain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace std::chrono_literals;

/// What several processes record within this time is one story: of both ends, say.
constexpr auto kTogether = 10s;

struct Document {
  fs::path path;
  fs::file_time_type time;
  json content;
};

/// Whether each of these members is absent, or of the type that `fits` looks for.
template <class Fits>
bool fit(const json& object, std::initializer_list<const char*> members, Fits fits) {
  return std::all_of(members.begin(), members.end(), [&](const char* member) {
    const auto at = object.find(member);
    return at == object.end() || fits(*at);
  });
}

/// A file comes from anybody: all that is read of it below must have the type that it is read as.
bool is_recording(const json& content) {
  const auto is_text = [](const json& value) { return value.is_string(); };
  const auto is_integer = [](const json& value) { return value.is_number_integer(); };
  const auto is_cause = [&](const json& cause) {
    return cause.is_object() && fit(cause, {"time_ns"}, is_integer) && fit(cause, {"cause"}, is_text);
  };
  const auto are_causes = [&](const json& causes) {
    return causes.is_array() && std::all_of(causes.begin(), causes.end(), is_cause);
  };
  return content.is_object() && fit(content, {"schema", "program", "address", "why"}, is_text) &&
         fit(content, {"pid", "nic", "older_packets"}, is_integer) && fit(content, {"causes"}, are_causes) &&
         content.value("schema", "") == "uroce-record-1";
}

/// Why that is no file to read, or "". Opening a FIFO would wait for somebody who writes.
std::string wrong_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) return error.message();
  return fs::is_regular_file(status) ? "" : "it is no regular file";
}

/// A recording, or why there is none.
Result<Document, std::string> read_document(const fs::path& path) {
  if (std::string wrong = wrong_file(path); !wrong.empty()) return Err{std::move(wrong)};
  errno = 0;
  std::ifstream file(path);
  if (!file) return Err{std::string(std::strerror(errno))};
  json content = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!is_recording(content)) return Err{std::string("damaged, or no recording of this version of uroce")};
  std::error_code error;
  return Document{path, fs::last_write_time(path, error), std::move(content)};
}

std::vector<Document> documents_in(const std::string& directory, std::vector<std::string>& skipped) {
  std::vector<Document> found;
  std::error_code error;
  const auto entries = entries_of(directory, error);
  if (error) skipped.push_back(directory + ": " + error.message());
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(record::kFilePrefix) || entry.path().extension() != ".json") continue;
    auto document = read_document(entry.path());
    if (document.ok()) {
      found.push_back(std::move(*document));
    } else {
      skipped.push_back(entry.path().string() + ": " + document.error());
    }
  }
  std::sort(found.begin(), found.end(), [](const Document& a, const Document& b) { return a.time < b.time; });
  return found;
}

std::string place_of(const Document& document) {
  const json& c = document.content;
  return fmt::format("{}[{}], uroce{} {}; {}", c.value("program", "?"), c.value("pid", 0), c.value("nic", 0),
                     c.value("address", ""), document.path.filename().string());
}

void add_verdicts(const Document& document, std::vector<Verdict>& verdicts) {
  const std::string place = place_of(document);
  const json causes = document.content.value("causes", json::array());
  for (const json& cause : causes) {
    verdicts.push_back({cause.value("time_ns", std::int64_t{0}), cause.value("cause", ""), place});
  }
  if (causes.empty()) verdicts.push_back({0, "Recorded: " + document.content.value("why", ""), place});
}

/// The capture beside a document, where the recorder kept packets.
void add_capture(const Document& document, InputFiles& input) {
  const fs::path capture = fs::path(document.path).replace_extension(".pcapng");
  std::error_code error;
  if (fs::symlink_status(capture, error).type() == fs::file_type::not_found) return;
  if (const std::string wrong = wrong_file(capture); !wrong.empty()) {
    input.skipped.push_back(capture.string() + ": " + wrong);
  } else {
    input.captures.push_back(capture.string());
    if (document.content.value("older_packets", std::uint64_t{0}) != 0) input.cut.insert(capture.string());
  }
}

/// Whether one NIC of one process has written both. In containers each process may be number 1.
bool is_of_one_nic(const json& a, const json& b) {
  constexpr std::array kWho{"pid", "nic", "program", "address"};
  return std::ranges::all_of(kWho,
                             [&](const char* member) { return a.value(member, json()) == b.value(member, json()); });
}

/// False when there is nothing.
bool take_directory(const std::string& directory, InputFiles& input) {
  for (std::string& ring : record::save_left_rings(directory)) input.skipped.push_back(std::move(ring));
  std::vector<Document> documents = documents_in(directory, input.skipped);
  if (documents.empty()) return false;
  const auto newest = documents.back().time;
  std::erase_if(documents, [&](const Document& document) { return newest - document.time > kTogether; });
  // A process that recorded several times told the same each time, and more.
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto same = [&](const Document& later) { return is_of_one_nic(later.content, documents[i].content); };
    if (std::any_of(documents.begin() + static_cast<std::ptrdiff_t>(i) + 1, documents.end(), same)) continue;
    add_verdicts(documents[i], input.verdicts);
    add_capture(documents[i], input);
  }
  std::stable_sort(input.verdicts.begin(), input.verdicts.end(),
                   [](const Verdict& a, const Verdict& b) { return a.time_ns < b.time_ns; });
  return true;
}

}  // namespace

Result<InputFiles, std::string> input_of(const std::vector<std::string>& files) {
  InputFiles input;
  for (const std::string& file : files) {
    std::error_code error;
    const std::size_t skipped = input.skipped.size();
    if (!fs::is_directory(file, error)) {
      input.captures.push_back(file);
    } else if (!take_directory(file, input)) {
      if (input.skipped.size() > skipped) {
        return Err{file + " is a directory without recordings that can be read: " + input.skipped.back()};
      }
      return Err{file + " is a directory without recordings: nothing has broken, or UROCE_RECORD did not name it"};
    }
  }
  return input;
}

}  // namespace uroce::explain
