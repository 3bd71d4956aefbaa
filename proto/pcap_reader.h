// SPDX-License-Identifier: Apache-2.0
// Reads capture files through libpcap. Apart from what writes them (pcap.h): libpcap brings a dozen libraries along,
// which would be loaded with libibverbs.so.1 into each program. Errors are sentences for people and name the file.
#pragma once

#include <memory>
#include <optional>
#include <string>

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

}  // namespace uroce::proto
