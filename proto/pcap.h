// Capture files: Ethernet frames with nanosecond timestamps. They are read through libpcap, which cannot write pcapng,
// and written by hand. In a library of its own (uroce_pcap), as files are I/O and proto is not. Errors are sentences
// for people and name the file.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proto/base/result.h"
#include "proto/bytes.h"

struct pcap;

namespace uroce::proto {

struct CapturedFrame {
  std::int64_t time_ns = 0;     ///< Since 1970, UTC.
  Bytes bytes;                  ///< Valid until the next call of next().
  std::uint32_t wire_size = 0;  ///< More than bytes.size() when the capture cut the frame off.
};

/// Reads pcap and pcapng, microsecond and nanosecond, of link type Ethernet.
class PcapReader {
 public:
  static Result<PcapReader, std::string> open(const std::string& path);

  /// The next frame; nothing at the end of the file; an error when the file is damaged or cut off.
  Result<std::optional<CapturedFrame>, std::string> next();

 private:
  struct Close {
    void operator()(pcap* handle) const;
  };
  PcapReader(std::string path, pcap* handle) : path_(std::move(path)), handle_(handle) {}
  std::string path_;
  std::unique_ptr<pcap, Close> handle_;
};

/// Writes nanosecond captures of link type Ethernet: pcapng when the file's name ends like that, else pcap. What the
/// calls return is nothing, or what went wrong.
class PcapWriter {
 public:
  using Error = std::optional<std::string>;

  /// Creates or empties the file.
  static Result<PcapWriter, std::string> create(const std::string& path);
  /// Goes on behind what an earlier writer left, which must be whole.
  static Result<PcapWriter, std::string> resume(const std::string& path);

  /// Appends a frame; buffered. The comment is for files that have room for one, and at most 65535 bytes.
  Error write(std::int64_t time_ns, Bytes frame, std::string_view comment = {});
  /// Hands everything written so far to the operating system.
  Error flush();
  const std::string& path() const { return path_; }
  /// Whether comments are kept: in pcapng, not in pcap.
  bool takes_comments() const { return is_ng_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  static Result<PcapWriter, std::string> open(const std::string& path, const char* mode);
  PcapWriter(std::string path, bool is_ng, std::FILE* file) : path_(std::move(path)), is_ng_(is_ng), file_(file) {}
  void put(std::span<const std::uint32_t> words);
  void put_padded(Bytes bytes);
  Error state() const;

  std::string path_;
  bool is_ng_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace uroce::proto
