// SPDX-License-Identifier: Apache-2.0
// Any bytes, as a frame, as a UDP payload and as a capture file: parsing never crashes, what it accepts is consistent,
// can be described, and is built again byte for byte.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "proto/describe/describe.h"
#include "proto/pcap_reader.h"
#include "tests/unit/proto/cm_reencode.h"

namespace uroce::proto {
namespace {

void check_message(Bytes mad) {
  const auto message = cm::parse_message(mad);
  if (!message) return;
  UROCE_ASSERT(std::ranges::equal(test::reencode(*message), mad));
  if (message->private_data().size() < cm::CmaHeader::kSize) return;
  const auto addresses = cm::parse_addresses(message->private_data());
  if (!addresses) return;
  std::vector<std::uint8_t> again(cm::CmaHeader::kSize);
  cm::build_addresses(*addresses, again);
  const auto reparsed = cm::parse_addresses(again);
  UROCE_ASSERT(reparsed && reparsed->source == addresses->source && reparsed->destination == addresses->destination);
}

void check_packet(const Path& path, Bytes bytes) {
  const auto packet = parse_packet(bytes);
  UROCE_ASSERT(!one_line(bytes).empty() && !tree(bytes).empty());
  const IcrcCheck icrc_check = check_icrc(path, bytes);
  if (!packet) return;

  const std::size_t headers = packet->op().stack.bytes;
  UROCE_ASSERT(headers + packet->payload().size() + packet->pad().size() + kIcrcSize == bytes.size());
  UROCE_ASSERT(packet->op().has_payload || packet->payload().empty());
  std::vector<std::uint8_t> again = test::reencode(*packet, path, icrc_check.ip_id);
  if (icrc_check.ok) UROCE_ASSERT(load_icrc(Bytes(again).last(kIcrcSize)) == packet->icrc());
  store_icrc(MutBytes(again).last(kIcrcSize), packet->icrc());
  UROCE_ASSERT(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  check_message(packet->payload());
}

void check_frame(Bytes bytes) {
  const auto frame = parse_frame(bytes);
  UROCE_ASSERT(!frame_line(bytes).empty() && !frame_tree(bytes).empty());
  if (!frame) return;
  std::vector<std::uint8_t> again(frame_size(frame->fields, frame->packet.size()));
  UROCE_ASSERT(build_frame(frame->fields, frame->packet, again) == bytes.size());
  UROCE_ASSERT(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  // A frame whose ICRC is right passes the check that sees less of it (which knows only version 2 and DF).
  if (frame->fields.version == RoceVersion::kV2 && frame->fields.ip_flags == kDontFragment && icrc_ok(*frame)) {
    const IcrcCheck check = check_icrc(frame->fields.path, frame->packet);
    UROCE_ASSERT(check.ok && (!frame->fields.path.destination.is_v4() || check.ip_id == frame->fields.ip_id));
  }
  check_packet(frame->fields.path, frame->packet);
}

bool looks_like_capture(Bytes bytes) {
  constexpr std::uint32_t kMagics[] = {0xA1B2C3D4, 0xA1B23C4D, 0xD4C3B2A1, 0x4D3CB2A1, 0x0A0D0D0A};
  return bytes.size() >= 4 && std::find(std::begin(kMagics), std::end(kMagics), load_icrc(bytes)) != std::end(kMagics);
}

void check_capture(Bytes bytes) {
  const int fd = memfd_create("capture", MFD_CLOEXEC);
  UROCE_ASSERT(fd >= 0 && write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  if (auto reader = PcapReader::open("/proc/self/fd/" + std::to_string(fd))) {
    for (auto next = reader->next(); next && *next; next = reader->next()) check_frame((*next)->bytes);
  }
  close(fd);
}

}  // namespace
}  // namespace uroce::proto

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace uroce::proto;
  const uroce::Bytes bytes(data, std::min<std::size_t>(size, 0xFFFF));
  if (looks_like_capture(bytes)) check_capture(bytes);
  check_frame(bytes);
  check_packet({Gid::from_v4(127, 0, 0, 1), Gid::from_v4(127, 0, 0, 2)}, bytes);
  return 0;
}
