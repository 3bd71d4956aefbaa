// SPDX-License-Identifier: Apache-2.0
// Seeds of fuzz_explain: short captures of the kernel's traffic in which something goes wrong.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "proto/pcap_format.h"
#include "proto/pcap_reader.h"
#include "tests/judged/fuzz/seeds.h"

namespace uroce::fuzz {
namespace {

/// The same capture as uroce writes it: two interfaces, directions, and what the NIC and its faults say.
std::vector<std::uint8_t> as_pcapng(const std::filesystem::path& path) {
  using namespace proto::pcap_format;
  constexpr std::string_view kComments[] = {"", "NIC: sent again because of ack_timeout qpn=0x11 psn=0x100",
                                            "NIC: sent again because of rnr_nak_in psn=0x100", "",
                                            "uroce: duplicated by dup=1@#3"};
  std::vector<std::uint8_t> out;
  put_header(Format::kPcapng, out);
  put_interface("uroce0", out);
  put_interface("lo", out);
  auto reader = proto::PcapReader::open(path);
  if (!reader.ok()) throw std::runtime_error(reader.error());
  for (std::uint32_t number = 0;; ++number) {
    const auto frame = reader->next();
    if (!frame.ok()) throw std::runtime_error(frame.error());
    if (!*frame) return out;
    Packet packet;
    packet.time_ns = (*frame)->time_ns;
    packet.frame = (*frame)->bytes;
    packet.comment = kComments[number % std::size(kComments)];
    packet.interface = number % 2;
    packet.direction = number % 2 == 0 ? Direction::kSent : Direction::kReceived;
    put_packet(Format::kPcapng, packet, out);
  }
}

}  // namespace

void add_explain_seeds(std::vector<Seed>& seeds) {
  const std::filesystem::path captures = std::filesystem::path(UROCE_SOURCE_DIR) / "pcaps" / "rxe";
  for (const char* name :
       {"rc_rnr_then_ok", "dup_atomic.atB", "loss_send_list_middle.atA", "cm_reject_no_listener", "rc_atomic_write",
        "ud_send_imm_v6", "rc_list8_last_signalled", "v6_rc_faa_8", "loss_retry_exceeded.atA"}) {
    std::ifstream file(captures / (std::string(name) + ".pcap"), std::ios::binary);
    seeds.push_back({"explain", name, {std::istreambuf_iterator<char>(file), {}}});
  }
  for (const char* name : {"rc_rnr_then_ok", "loss_retry_exceeded.atA"}) {
    const auto path = captures / (std::string(name) + ".pcap");
    seeds.push_back({"explain", std::string(name) + "_as_pcapng", as_pcapng(path)});
  }
}

}  // namespace uroce::fuzz
