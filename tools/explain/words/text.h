// SPDX-License-Identifier: Apache-2.0
// The story as text: a line for each packet, and a summary.
#pragma once

#include <cstdio>
#include <map>

#include "tools/explain/words/output.h"
#include "tools/explain/words/sentences.h"

namespace uroce::explain {

class Text : public Output {
 public:
  struct Options {
    bool packets = false;  ///< The transcript.
    bool summary = true;
  };
  Text(std::FILE* out, const Names& names, const Filter& filter, const Options& options)
      : out_(out), names_(&names), filter_(filter), options_(options) {}

  void begin(const std::vector<Verdict>& verdicts) override;
  bool wants_packets() const override { return options_.packets; }
  void packet(const Packet& packet, const Told& told, const Story& story) override;
  void warn(const std::string& text) override;
  void end(const Story& story, const std::vector<FileFacts>& files) override;
  void flush() override;

 private:
  void line(const std::string& text);
  void introduce(const Connection& connection);
  void connection(const Connection& connection, const Story& story);
  void direction(const Connection& connection, bool from_left, const Story& story);
  void habits(char side, const Habits& habits);
  void troubles(const Numbers& numbers, const Story& story);
  void management(const Story& story);
  void totals(const Story& story, const std::vector<FileFacts>& files);
  std::string since_start(std::int64_t ns, const Story& story) const;

  std::FILE* out_;
  const Names* names_;
  Filter filter_;
  Options options_;
  std::map<std::uint32_t, bool> introduced_;  ///< Whether with both QPNs.
  std::string buffer_;
};

}  // namespace uroce::explain
