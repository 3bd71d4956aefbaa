// Capture files through libpcap: Ethernet frames with nanosecond timestamps. In a library of its own (uroce_pcap), as
// files are I/O and proto is not. Errors are sentences for people and name the file.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "proto/base/result.h"
#include "proto/bytes.h"

struct pcap;
struct pcap_dumper;

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

/// Writes a nanosecond pcap of link type Ethernet. What the calls return is nothing, or what went wrong.
class PcapWriter {
 public:
  using Error = std::optional<std::string>;

  /// Creates or empties the file.
  static Result<PcapWriter, std::string> create(const std::string& path);

  /// Appends a frame; buffered.
  Error write(std::int64_t time_ns, Bytes frame);
  /// Hands everything written so far to the operating system.
  Error flush();
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(pcap* handle) const;
    void operator()(pcap_dumper* dumper) const;
  };
  PcapWriter(std::string path, pcap* handle, pcap_dumper* dumper)
      : path_(std::move(path)), handle_(handle), dumper_(dumper) {}
  std::string path_;
  std::unique_ptr<pcap, Close> handle_;
  std::unique_ptr<pcap_dumper, Close> dumper_;  ///< Closed (and flushed) before handle_.
};

}  // namespace uroce::proto
