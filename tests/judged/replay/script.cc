// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/replay/script.h"

#include <algorithm>
#include <sstream>

namespace uroce::replay {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, separator);) words.push_back(word);
  return words;
}

Command::Command(Side at, const std::string& line, const nlohmann::json* reply) : at_(at), line_(line), reply_(reply) {
  std::vector<std::string> words = split(line, ' ');
  verb_ = words.at(0);
  words.erase(words.begin());
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    arguments_[word.substr(0, equals)] = equals == std::string::npos ? "1" : word.substr(equals + 1);
  }
}

std::string Command::text(const std::string& name) const {
  const auto found = arguments_.find(name);
  return found == arguments_.end() ? std::string() : found->second;
}

std::uint64_t Command::number(const std::string& name, std::uint64_t otherwise) const {
  return has(name) ? std::stoull(text(name), nullptr, 0) : otherwise;
}

bool Command::lists(const std::string& name, const std::string& word) const {
  const std::vector<std::string> words = split(text(name), ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<Command> commands(const nlohmann::json& sidecar, const std::string& part) {
  std::vector<Command> out;
  for (const auto& entry : sidecar.at(part)) {
    const Side at = entry.at("at") == "A" ? Side::kA : Side::kB;
    out.emplace_back(at, entry.at("cmd").get<std::string>(), &entry.at("reply"));
  }
  return out;
}

}  // namespace uroce::replay
