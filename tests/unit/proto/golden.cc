// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/proto/golden.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include "proto/pcap_reader.h"

namespace uroce::proto::test {
namespace {

namespace fs = std::filesystem;

fs::path folder() { return fs::path(UROCE_SOURCE_DIR) / "pcaps" / "rxe"; }
fs::path connection_folder() { return fs::path(UROCE_SOURCE_DIR) / "pcaps" / "rxe_cm"; }

/// Names of the files with this extension, sorted.
std::vector<std::string> files(const fs::path& where, std::string_view extension) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(where)) {
    if (entry.path().extension() == extension) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<GoldenFrame> read(const fs::path& file) {
  auto reader = PcapReader::open(file);
  if (!reader) throw std::runtime_error(reader.error());
  const std::string capture = file.filename();
  std::vector<GoldenFrame> frames;
  for (std::size_t number = 1;; ++number) {
    auto next = reader->next();
    if (!next) throw std::runtime_error(next.error());
    if (!*next) return frames;
    const CapturedFrame& frame = **next;
    if (frame.bytes.size() != frame.wire_size) throw std::runtime_error(capture + " has a truncated frame");
    frames.push_back({capture.substr(0, capture.find('.')),
                      capture,
                      number,
                      frame.time_ns,
                      {frame.bytes.begin(), frame.bytes.end()}});
  }
}

std::vector<GoldenFrame> load(const fs::path& where) {
  std::vector<GoldenFrame> frames;
  for (const std::string& name : files(where, ".pcap")) {
    for (GoldenFrame& frame : read(where / name)) frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace

const std::vector<GoldenFrame>& golden_frames() {
  static const std::vector<GoldenFrame> frames = load(folder());
  return frames;
}

const std::vector<GoldenFrame>& connection_frames() {
  static const std::vector<GoldenFrame> frames = load(connection_folder());
  return frames;
}

std::vector<GoldenFrame> frames_of(const std::string& capture) { return read(folder() / capture); }

std::vector<GoldenFrame> connection_frames_of(const std::string& capture) {
  return read(connection_folder() / capture);
}

std::vector<std::string> golden_topics() {
  std::vector<std::string> topics = files(folder(), ".json");
  for (std::string& name : topics) name.resize(name.rfind('.'));
  return topics;
}

const nlohmann::json& sidecar(const std::string& topic) {
  static std::map<std::string, nlohmann::json> cache;
  const auto [entry, fresh] = cache.try_emplace(topic);
  if (fresh) {
    std::ifstream file(folder() / (topic + ".json"));
    entry->second = nlohmann::json::parse(file);
  }
  return entry->second;
}

const nlohmann::json& expectation(const GoldenFrame& frame) {
  return sidecar(frame.topic).at("packets").at(frame.capture).at(frame.number - 1);
}

}  // namespace uroce::proto::test
