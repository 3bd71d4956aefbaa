// SPDX-License-Identifier: Apache-2.0
// A peer that answers requests with whatever it likes: the victim has one WR of each kind under way, and the input may
// post more. See nic_commands.h and nic_victim.h.
#include "tests/judged/fuzz/nic_script.h"

namespace uroce::fuzz {
namespace {

void post_one_of_each(Victim& victim) {
  constexpr nic::SendOp kOps[] = {nic::SendOp::kSend,     nic::SendOp::kWrite,       nic::SendOp::kRead,
                                  nic::SendOp::kFetchAdd, nic::SendOp::kSendImm,     nic::SendOp::kWriteImm,
                                  nic::SendOp::kRead,     nic::SendOp::kCompareSwap, nic::SendOp::kSendInv};
  for (const nic::SendOp op : kOps) {
    SendSpec send;
    send.op =
        static_cast<std::uint8_t>((static_cast<unsigned>(op) + 10 - static_cast<unsigned>(nic::SendOp::kSend)) % 10);
    send.remote_addr = 0x1000;
    send.rkey = 0x99;
    victim.post_send(send);
  }
}

}  // namespace
}  // namespace uroce::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace uroce::fuzz;
  Reader in(uroce::Bytes(data, size));
  const auto setup = in.spec<Setup>();
  Victim victim(setup);
  if ((setup.flags & Setup::kNothingPosted) == 0) post_one_of_each(victim);
  victim.drain();
  NicScript(victim).run(in);
  return 0;
}
