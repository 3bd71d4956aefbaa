// SPDX-License-Identifier: Apache-2.0
// The story as a trace for ui.perfetto.dev and chrome://tracing (Chrome's JSON), written as it happens: a process for
// each connection, tracks for the packets, messages and waits of each of its two QPs.
#pragma once

#include <array>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/explain/words/output.h"

namespace uroce::explain {

class Perfetto : public Output {
 public:
  /// Each message that a QP has in flight takes a row; those without one are counted.
  static constexpr std::size_t kMostRows = 512;
  /// Arrows begin at most so many packets back.
  static constexpr std::size_t kArrowPackets = 65'536;

  Perfetto(const std::string& path, const Names& names, const Filter& filter);

  void packet(const Packet& packet, const Told& told, const Story& story) override;
  void finished(const Finished& message, std::uint32_t connection, const Story& story) override;
  void warn(const std::string& text) override { warnings_.push_back(text); }
  void end(const Story& story, const std::vector<FileFacts>& files) override;
  std::string error() const override { return error_; }

 private:
  /// Viewers show no slices that overlap in one track: those that do are put into several.
  struct Row {
    std::uint64_t track = 0;
    std::int64_t free_ns = 0;
  };
  struct Side {
    std::uint64_t packets = 0;  ///< Track; 0: none yet.
    std::vector<Row> messages, waits;
  };
  /// Where arrows begin and end.
  struct Seen {
    std::uint64_t process = 0, track = 0;
    std::int64_t time_ns = 0;
  };

  std::uint64_t packet_track(const Packet& packet, const Told& told);
  bool slice(std::vector<Row>& rows, std::uint64_t process, std::int64_t begin_ns, std::int64_t end_ns,
             const std::string& name, std::string_view category, const std::string& arguments);
  void wait(const Packet& packet, const Told& told);
  void arrow(const Seen& from, const Seen& to, std::string_view name);
  void remember(Place place, const Seen& seen);
  void name_tracks(const Story& story);
  void name(std::string_view what, std::uint64_t process, std::uint64_t track, const std::string& text);
  void sort(std::string_view what, std::uint64_t process, std::uint64_t track, std::uint64_t index);
  void name_rows(std::uint64_t process, const std::vector<Row>& rows, const std::string& title, std::uint64_t index);
  std::string at(std::int64_t time_ns) const;
  void event(const std::string& members);
  void fail(const char* what);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  const Names* names_;
  Filter filter_;
  std::int64_t start_ns_ = 0;
  bool first_ = true;
  std::uint64_t tracks_ = 0, arrows_ = 0, left_out_ = 0;
  std::map<std::uint32_t, std::array<Side, 2>> connections_;         ///< By number; the left QP, the right one.
  std::map<std::array<std::uint8_t, 16>, std::uint64_t> addresses_;  ///< Tracks of what belongs to no connection.
  std::unordered_map<std::uint64_t, Seen> seen_;                     ///< By place.
  std::deque<std::uint64_t> order_;                                  ///< Of seen_.
  std::vector<std::string> warnings_;
  std::string error_;
};

}  // namespace uroce::explain
