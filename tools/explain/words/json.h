// SPDX-License-Identifier: Apache-2.0
// The story as one JSON document (docs/explain.md describes it), written as it happens: nothing is kept.
#pragma once

#include <cstdio>

#include "tools/explain/words/output.h"

namespace uroce::explain {

class Json : public Output {
 public:
  Json(std::FILE* out, const Names& names, const Filter& filter, bool packets)
      : out_(out), names_(&names), filter_(filter), packets_(packets) {}

  void begin(const std::vector<Verdict>& verdicts) override { verdicts_ = verdicts; }
  bool wants_packets() const override { return packets_; }
  void packet(const Packet& packet, const Told& told, const Story& story) override;
  void warn(const std::string& text) override { warnings_.push_back(text); }
  void end(const Story& story, const std::vector<FileFacts>& files) override;
  void flush() override { std::fflush(out_); }

 private:
  void open();

  std::FILE* out_;
  const Names* names_;
  Filter filter_;
  bool packets_;
  std::vector<std::string> warnings_;
  std::vector<Verdict> verdicts_;
  bool begun_ = false;
  bool first_packet_ = true;
};

}  // namespace uroce::explain
