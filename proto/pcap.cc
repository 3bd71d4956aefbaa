#include "proto/pcap.h"

#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

namespace uroce::proto {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint32_t kSnapLength = 262'144;
constexpr std::size_t kBufferSize = 256 * 1024;

/// Since 1970, as far as 64 bits reach: pcapng has room for times that nothing was ever captured at.
std::int64_t nanoseconds(const timeval& time) {
  constexpr std::int64_t kMostSeconds = std::numeric_limits<std::int64_t>::max() / kNsPerSecond - 10;
  // tv_usec holds nanoseconds, as asked for in open().
  return std::clamp<std::int64_t>(time.tv_sec, -kMostSeconds, kMostSeconds) * kNsPerSecond + time.tv_usec;
}

// In the byte order of this machine, which readers recognise by the magic numbers.
constexpr std::array<std::uint32_t, 6> kPcapHeader{0xA1B23C4D, 2 | 4 << 16, 0, 0, kSnapLength, DLT_EN10MB};
// pcapng (draft-ietf-opsawg-pcapng), blocks of: type, length, body, length again.
constexpr std::array<std::uint32_t, 7> kSectionHeader{0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0xFFFFFFFF, 0xFFFFFFFF, 28};
/// With option if_tsresol: 9 = nanoseconds.
constexpr std::array<std::uint32_t, 8> kInterfaceDescription{1, 32, DLT_EN10MB, kSnapLength, 9 | 1 << 16, 9, 0, 32};
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::uint32_t kCommentOption = 1;

constexpr std::uint32_t padded(std::uint32_t size) { return (size + 3) / 4 * 4; }

std::string write_error(const std::string& path, int error) {
  return "can't write the capture " + path + ": " + std::strerror(error);
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

Result<PcapWriter, std::string> PcapWriter::open(const std::string& path, const char* mode) {
  std::FILE* file = std::fopen(path.c_str(), mode);
  if (file == nullptr) return Err{write_error(path, errno)};
  std::setvbuf(file, nullptr, _IOFBF, kBufferSize);
  return PcapWriter(path, path.ends_with(".pcapng"), file);
}

Result<PcapWriter, std::string> PcapWriter::create(const std::string& path) {
  auto writer = open(path, "wbe");
  if (!writer.ok()) return writer;
  if (writer->is_ng_) {
    writer->put(kSectionHeader);
    writer->put(kInterfaceDescription);
  } else {
    writer->put(kPcapHeader);
  }
  if (auto error = writer->flush()) return Err{*error};  // a full disk shows at once
  return writer;
}

Result<PcapWriter, std::string> PcapWriter::resume(const std::string& path) { return open(path, "abe"); }

PcapWriter::Error PcapWriter::write(std::int64_t time_ns, Bytes frame, std::string_view comment) {
  const auto size = static_cast<std::uint32_t>(frame.size());
  if (!is_ng_) {
    put(std::array{static_cast<std::uint32_t>(time_ns / kNsPerSecond),
                   static_cast<std::uint32_t>(time_ns % kNsPerSecond), size, size});
    std::fwrite(frame.data(), 1, frame.size(), file_.get());
    return state();
  }
  comment = comment.substr(0, 0xFFFF);
  const auto comment_size = static_cast<std::uint32_t>(comment.size());
  // An option is a word of code and length, its value, and at the end of them all a word of zeros.
  const std::uint32_t options = comment.empty() ? 0 : 4 + padded(comment_size) + 4;
  const std::uint32_t total = 28 + padded(size) + options + 4;
  const auto time = static_cast<std::uint64_t>(time_ns);
  put(std::array{kEnhancedPacket, total, 0u, static_cast<std::uint32_t>(time >> 32), static_cast<std::uint32_t>(time),
                 size, size});
  put_padded(frame);
  if (!comment.empty()) {
    put(std::array{kCommentOption | comment_size << 16});
    put_padded({reinterpret_cast<const std::uint8_t*>(comment.data()), comment.size()});
    put(std::array{0u});
  }
  put(std::array{total});
  return state();
}

PcapWriter::Error PcapWriter::flush() {
  if (std::fflush(file_.get()) != 0) return write_error(path_, errno);
  return {};
}

void PcapWriter::put(std::span<const std::uint32_t> words) {
  std::fwrite(words.data(), sizeof words[0], words.size(), file_.get());
}

void PcapWriter::put_padded(Bytes bytes) {
  constexpr std::array<std::uint8_t, 4> kZeros{};
  std::fwrite(bytes.data(), 1, bytes.size(), file_.get());
  std::fwrite(kZeros.data(), 1, padded(static_cast<std::uint32_t>(bytes.size())) - bytes.size(), file_.get());
}

/// Whether any of the writes since the file was opened failed.
PcapWriter::Error PcapWriter::state() const {
  if (std::ferror(file_.get()) != 0) return write_error(path_, errno);
  return {};
}

}  // namespace uroce::proto
