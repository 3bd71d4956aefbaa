// SPDX-License-Identifier: Apache-2.0
#include "proto/pcap_reader.h"

#include <pcap/pcap.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

namespace uroce::proto {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

/// Since 1970, as far as 64 bits reach: pcapng has room for times that nothing was ever captured at.
std::int64_t nanoseconds(const timeval& time) {
  constexpr std::int64_t kMostSeconds = std::numeric_limits<std::int64_t>::max() / kNsPerSecond - 10;
  // tv_usec holds nanoseconds, as asked for in open().
  return std::clamp<std::int64_t>(time.tv_sec, -kMostSeconds, kMostSeconds) * kNsPerSecond + time.tv_usec;
}

}  // namespace

void PcapReader::Close::operator()(pcap* handle) const { pcap_close(handle); }

Result<PcapReader, std::string> PcapReader::open(const std::string& path) {
  char reason[PCAP_ERRBUF_SIZE] = {};
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return Err{"can't open the capture " + path + ": " + std::strerror(errno)};
  pcap_t* handle = pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, reason);
  if (handle == nullptr) {
    std::fclose(file);
    return Err{"can't read the capture " + path + ": " + reason};
  }
  PcapReader reader(path, handle);
  if (const int type = pcap_datalink(handle); type != DLT_EN10MB) {
    const char* name = pcap_datalink_val_to_name(type);
    return Err{"can't read the capture " + path + ": its link type is " +
               (name != nullptr ? std::string(name) : std::to_string(type)) + ", not Ethernet (EN10MB)"};
  }
  return reader;
}

Result<std::optional<CapturedFrame>, std::string> PcapReader::next() {
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  const int got = pcap_next_ex(handle_.get(), &header, &bytes);
  if (got == PCAP_ERROR_BREAK) return std::optional<CapturedFrame>{};
  if (got != 1) return Err{"can't read the capture " + path_ + ": " + pcap_geterr(handle_.get())};
  return std::optional{CapturedFrame{nanoseconds(header->ts), Bytes{bytes, header->caplen}, header->len}};
}

}  // namespace uroce::proto
