// SPDX-License-Identifier: Apache-2.0
// The story as a page for browsers: one file, which fetches nothing (tools/explain/page).
#pragma once

#include <string>
#include <unordered_map>

#include "tools/explain/words/output.h"

namespace uroce::explain {

class Html : public Output {
 public:
  /// Packets that one page can hold; further ones are left out, and the page says so.
  static constexpr std::size_t kMostPackets = 100'000;

  Html(std::string path, const Names& names, const Filter& filter)
      : path_(std::move(path)), names_(&names), filter_(filter) {}

  void packet(const Packet& packet, const Told& told, const Story& story) override;
  void warn(const std::string& text) override { warning_ = "WARNING: " + text + "\n\n"; }
  void end(const Story& story, const std::vector<FileFacts>& files) override;
  std::string error() const override { return error_; }

 private:
  std::size_t network(const Packet& packet);
  std::string data(const Story& story, const std::vector<FileFacts>& files) const;

  std::string path_;
  const Names* names_;
  Filter filter_;
  std::string packets_;  ///< As JSON.
  std::size_t count_ = 0, left_out_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> indices_;  ///< By place.
  std::unordered_map<std::string, std::size_t> networks_;
  std::string networks_json_;
  std::string warning_, error_;
};

}  // namespace uroce::explain
