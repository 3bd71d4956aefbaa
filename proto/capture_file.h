// SPDX-License-Identifier: Apache-2.0
// A capture file that several processes write at the same time. docs/adr/0012-one-capture-many-processes.md says why it
// is done like this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/fd.h"
#include "proto/base/result.h"
#include "proto/bytes.h"
#include "proto/pcap_format.h"

namespace uroce::proto {

/// A regular file holds one capture: one header, and whole records of all its writers. Into a pipe (or another stream,
/// as a terminal) goes pcapng; as soon as several processes write into it, each batch is a section of its own. No write
/// raises a signal. Errors are sentences for people and name the file.
class CaptureFile {
 public:
  using Error = std::optional<std::string>;
  enum class Start : std::uint8_t {
    kAnew,  ///< What is in the file goes, unless somebody is writing it: then as kGoOn.
    kGoOn,  ///< Behind what is there.
  };

  /// Opens `path` and makes a capture of it if it is empty. Waits some seconds for the reader of a FIFO.
  static Result<CaptureFile, std::string> open(const std::string& path, Start start);

  /// pcapng: makes `name` an interface of the capture; returns its number. pcap: nothing happens, and 0.
  Result<std::uint32_t, std::string> add_interface(const std::string& name);
  /// Appends whole records: all, or (in a regular file) none, or (in a pipe) some of them. After an error the file is
  /// not to be used any more.
  Error append(Bytes records);
  /// Nothing more is coming from here: cuts off what a killed process has left incomplete at the end of a regular file.
  void leave();

  pcap_format::Format format() const { return format_; }
  const std::string& path() const { return path_; }
  /// Closes it silently, in a child of fork().
  void close() { fd_.reset(); }

 private:
  explicit CaptureFile(std::string path) : path_(std::move(path)) {}
  Error begin(Start start);
  Error begin_file(Start start);
  Error add_to_file(Bytes records);
  Error add_to_stream(Bytes records);
  Error find_end();
  Error catch_up();
  Error look_on();
  Error problem(const char* what) const;
  Error problem(int error) const;

  std::string path_;
  Fd fd_;
  pcap_format::Format format_ = pcap_format::Format::kPcap;
  bool is_stream_ = false;
  bool is_shared_ = false;             ///< A stream that others have been writing to as well.
  std::uint64_t size_ = 0;             ///< The file's, when we looked last.
  std::uint64_t end_ = 0;              ///< Where its whole records end, as far as we have looked.
  std::uint32_t interfaces_ = 0;       ///< Up to there, in the last section.
  std::vector<std::uint8_t> section_;  ///< What a section of ours in a stream begins with.
};

}  // namespace uroce::proto
