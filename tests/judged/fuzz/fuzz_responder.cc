// SPDX-License-Identifier: Apache-2.0
// A peer that sends whatever it likes to a QP with receives posted: see nic_commands.h and nic_victim.h.
#include "tests/judged/fuzz/nic_script.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace uroce::fuzz;
  Reader in(uroce::Bytes(data, size));
  Victim victim(in.spec<Setup>());
  for (std::uint8_t i = 0; i < 8; ++i) {
    RecvSpec receive;
    receive.qp = i;
    receive.offset = static_cast<std::int16_t>(i * 512);
    receive.length = 1 + 512;
    victim.post_recv(receive);
  }
  NicScript(victim).run(in);
  return 0;
}
