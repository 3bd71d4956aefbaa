// SPDX-License-Identifier: Apache-2.0
#include "proto/pcap.h"

#include <utility>

namespace uroce::proto {

Result<PcapWriter, std::string> PcapWriter::open(const std::string& path, CaptureFile::Start start,
                                                 const std::string& interface) {
  auto file = CaptureFile::open(path, start);
  if (!file.ok()) return Err{file.error()};
  const auto number = file->add_interface(interface);
  if (!number.ok()) return Err{number.error()};
  return PcapWriter(std::move(*file), *number);
}

void PcapWriter::write(std::int64_t time_ns, Bytes frame, std::string_view comment, Direction direction) {
  const std::size_t before = buffer_.size();
  try {
    pcap_format::put_packet(
        file_.format(),
        {.time_ns = time_ns, .frame = frame, .comment = comment, .interface = interface_, .direction = direction},
        buffer_);
  } catch (const std::bad_alloc&) {  // No half of a record.
    buffer_.resize(before);
    throw;
  }
}

PcapWriter::Error PcapWriter::flush() {
  if (buffer_.empty()) return {};
  auto error = file_.append(buffer_);
  buffer_.clear();
  return error;
}

void PcapWriter::abandon() {
  buffer_.clear();
  file_.close();
}

}  // namespace uroce::proto
