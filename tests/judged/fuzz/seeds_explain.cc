// SPDX-License-Identifier: Apache-2.0
// Seeds of fuzz_explain: short captures of the kernel's traffic in which something goes wrong.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/judged/fuzz/seeds.h"

namespace uroce::fuzz {

void add_explain_seeds(std::vector<Seed>& seeds) {
  const std::filesystem::path captures = std::filesystem::path(UROCE_SOURCE_DIR) / "pcaps" / "rxe";
  for (const char* name :
       {"rc_rnr_then_ok", "dup_atomic.atB", "loss_send_list_middle.atA", "cm_reject_no_listener", "rc_atomic_write",
        "ud_send_imm_v6", "rc_list8_last_signalled", "v6_rc_faa_8", "loss_retry_exceeded.atA"}) {
    std::ifstream file(captures / (std::string(name) + ".pcap"), std::ios::binary);
    seeds.push_back({"explain", name, {std::istreambuf_iterator<char>(file), {}}});
  }
}

}  // namespace uroce::fuzz
