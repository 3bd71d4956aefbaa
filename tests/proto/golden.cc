#include "tests/proto/golden.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include "proto/pcap.h"

namespace uroce::proto::test {
namespace {

namespace fs = std::filesystem;

fs::path folder() { return fs::path(UROCE_SOURCE_DIR) / "pcaps" / "rxe"; }

std::vector<GoldenFrame> load() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (entry.path().extension() == ".pcap") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<GoldenFrame> frames;
  for (const fs::path& file : files) {
    const std::string name = file.filename();
    auto reader = PcapReader::open(file);
    if (!reader) throw std::runtime_error(reader.error());
    for (std::size_t number = 1;; ++number) {
      auto next = reader->next();
      if (!next) throw std::runtime_error(next.error());
      if (!*next) break;
      const CapturedFrame& frame = **next;
      if (frame.bytes.size() != frame.wire_size) throw std::runtime_error(name + " has a truncated frame");
      frames.push_back({name.substr(0, name.find('.')), name, number, {frame.bytes.begin(), frame.bytes.end()}});
    }
  }
  return frames;
}

}  // namespace

const std::vector<GoldenFrame>& golden_frames() {
  static const std::vector<GoldenFrame> frames = load();
  return frames;
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
