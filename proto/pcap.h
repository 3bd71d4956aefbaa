// SPDX-License-Identifier: Apache-2.0
// Writes capture files: Ethernet frames with nanosecond timestamps. By hand, as libpcap cannot write pcapng. In a
// library of its own (uroce_pcap), as files are I/O and proto is not. Errors are sentences for people and name the
// file.
#pragma once

#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"
#include "proto/bytes.h"
#include "proto/capture_file.h"
#include "proto/pcap_format.h"

namespace uroce::proto {

/// Writes nanosecond captures of link type Ethernet: pcapng when the file's name ends like that or is that of a pipe,
/// else pcap. Several processes may write one file (capture_file.h). What the calls return is nothing, or what went
/// wrong.
class PcapWriter {
 public:
  using Error = std::optional<std::string>;
  using Direction = pcap_format::Direction;

  /// Creates or empties the file; goes on behind what others have written who are still at it. `interface`: what its
  /// packets came by, in pcapng.
  static Result<PcapWriter, std::string> create(const std::string& path, const std::string& interface = {}) {
    return open(path, CaptureFile::Start::kAnew, interface);
  }
  /// Goes on behind whatever is there.
  static Result<PcapWriter, std::string> resume(const std::string& path, const std::string& interface = {}) {
    return open(path, CaptureFile::Start::kGoOn, interface);
  }

  PcapWriter(PcapWriter&&) = default;
  /// Flushes, and leaves the file whole.
  ~PcapWriter() {
    try {
      if (!flush()) file_.leave();
    } catch (const std::bad_alloc&) {  // There is none for the sentence about the error.
    }
  }

  /// Appends a frame; buffered, all of it, or none without memory for it. The comment is for files that have room for
  /// one, and at most 65535 bytes.
  void write(std::int64_t time_ns, Bytes frame, std::string_view comment = {},
             Direction direction = Direction::kUnknown);
  /// Hands everything written so far to the operating system, whole frames.
  Error flush();
  /// Forgets what is not written yet, in a child of fork(): the parent will write it.
  void abandon();
  /// Bytes that the next flush will write.
  std::size_t buffered() const { return buffer_.size(); }
  const std::string& path() const { return file_.path(); }
  /// Whether comments are kept: in pcapng, not in pcap.
  bool takes_comments() const { return file_.format() == pcap_format::Format::kPcapng; }

 private:
  static Result<PcapWriter, std::string> open(const std::string& path, CaptureFile::Start start,
                                              const std::string& interface);
  PcapWriter(CaptureFile file, std::uint32_t interface) : file_(std::move(file)), interface_(interface) {}

  CaptureFile file_;
  std::uint32_t interface_;
  std::vector<std::uint8_t> buffer_;
};

}  // namespace uroce::proto
