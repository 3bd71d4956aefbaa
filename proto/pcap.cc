#include "proto/pcap.h"

#include <pcap/pcap.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

namespace uroce::proto {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr int kSnapLength = 262'144;
constexpr std::size_t kBufferSize = 256 * 1024;

/// Since 1970, as far as 64 bits reach: pcapng has room for times that nothing was ever captured at.
std::int64_t nanoseconds(const timeval& time) {
  constexpr std::int64_t kMostSeconds = std::numeric_limits<std::int64_t>::max() / kNsPerSecond - 10;
  // tv_usec holds nanoseconds, as asked for in open().
  return std::clamp<std::int64_t>(time.tv_sec, -kMostSeconds, kMostSeconds) * kNsPerSecond + time.tv_usec;
}

std::string write_error(const std::string& path, int error) {
  return "can't write the capture " + path + ": " + std::strerror(error);
}

}  // namespace

void PcapReader::Close::operator()(pcap* handle) const { pcap_close(handle); }
void PcapWriter::Close::operator()(pcap* handle) const { pcap_close(handle); }
void PcapWriter::Close::operator()(pcap_dumper* dumper) const { pcap_dump_close(dumper); }

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

Result<PcapWriter, std::string> PcapWriter::create(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return Err{write_error(path, errno)};
  std::setvbuf(file, nullptr, _IOFBF, kBufferSize);
  pcap_t* handle = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, kSnapLength, PCAP_TSTAMP_PRECISION_NANO);
  pcap_dumper_t* dumper = handle != nullptr ? pcap_dump_fopen(handle, file) : nullptr;
  if (dumper == nullptr) {
    std::string reason = handle != nullptr ? pcap_geterr(handle) : "out of memory";
    if (handle != nullptr) pcap_close(handle);
    std::fclose(file);
    return Err{"can't write the capture " + path + ": " + reason};
  }
  PcapWriter writer(path, handle, dumper);
  if (auto error = writer.flush()) return Err{*error};  // a full disk shows at once
  return writer;
}

PcapWriter::Error PcapWriter::write(std::int64_t time_ns, Bytes frame) {
  const auto size = static_cast<bpf_u_int32>(frame.size());
  const pcap_pkthdr header{{time_ns / kNsPerSecond, time_ns % kNsPerSecond}, size, size};
  pcap_dump(reinterpret_cast<u_char*>(dumper_.get()), &header, frame.data());
  if (std::ferror(pcap_dump_file(dumper_.get())) != 0) return write_error(path_, errno);
  return {};
}

PcapWriter::Error PcapWriter::flush() {
  if (pcap_dump_flush(dumper_.get()) != 0) return write_error(path_, errno);
  return {};
}

}  // namespace uroce::proto
