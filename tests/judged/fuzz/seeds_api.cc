// SPDX-License-Identifier: Apache-2.0
// Seeds of fuzz_api. Unless `from_nothing`, a program starts with two connected QPs, 0 and 1, each with the PD, MR and
// CQ of its number.
#include "tests/judged/fuzz/api_program.h"
#include "tests/judged/fuzz/seeds.h"

namespace uroce::fuzz {
namespace {

class ApiSeed {
 public:
  explicit ApiSeed(bool from_nothing = false) : bytes_{static_cast<std::uint8_t>(from_nothing)} {}
  /// Arguments in the order in which the call reads them, the object first; what is left out is usual.
  ApiSeed& call(ApiCall which, std::vector<std::uint8_t> arguments = {}) {
    bytes_.push_back(which);
    bytes_.push_back(static_cast<std::uint8_t>(arguments.size()));
    bytes_.insert(bytes_.end(), arguments.begin(), arguments.end());
    return *this;
  }
  /// What the program does while it waits.
  ApiSeed& poll() {
    for (int i = 0; i < 3; ++i) call(kPollCq, {0}).call(kPollCq, {1});
    return *this;
  }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// The byte that makes kPostSends take `opcode`.
std::uint8_t op(int opcode) { return static_cast<std::uint8_t>(IBV_WR_SEND ^ opcode); }

}  // namespace

// NOLINTNEXTLINE(readability-function-size): one list.
void add_api_seeds(std::vector<Seed>& seeds) {
  const auto add = [&seeds](std::string name, const ApiSeed& seed) {
    seeds.push_back({"api", std::move(name), seed.bytes()});
  };
  add("nothing", ApiSeed(true));
  add("pair", ApiSeed());
  constexpr std::uint8_t kOne = 0, kRemoteMr = 1, kMore = 3;
  add("send", ApiSeed().call(kPostRecvs, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}).call(kPostSends, {0}).poll());
  for (const auto& [name, opcode] : {std::pair{"write", IBV_WR_RDMA_WRITE}, {"read", IBV_WR_RDMA_READ}}) {
    add(name, ApiSeed().call(kPostSends, {0, kOne, op(opcode), 0, kRemoteMr}).poll());
  }
  for (const auto& [name, opcode] :
       {std::pair{"fetch_add", IBV_WR_ATOMIC_FETCH_AND_ADD}, {"compare_swap", IBV_WR_ATOMIC_CMP_AND_SWP}}) {
    // 8 bytes at offset 0x100.
    add(name, ApiSeed().call(kPostSends, {0, kOne, op(opcode), 0, kRemoteMr, 0, 0, 0, 0, 0, 1, 0, 0, 9}).poll());
  }
  // 300 bytes each, and two packets.
  add("send_list_of_four",
      ApiSeed().call(kPostRecvs, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, kMore}).call(kPostSends, {0, kMore}).poll());
  add("receiver_not_ready",
      ApiSeed().call(kPostSends, {0}).poll().call(kAdvance, {10}).poll().call(kAdvance, {12}).poll());
  add("all_is_lost", ApiSeed()
                         .call(kLose, {200})
                         .call(kPostSends, {0})
                         .poll()
                         .call(kAdvance, {12})
                         .poll()
                         .call(kAdvance, {12})
                         .poll()
                         .call(kAdvance, {12})
                         .poll()
                         .call(kGetAsyncEvent, {0}));
  add("bad_rkey",
      ApiSeed().call(kPostSends, {0, kOne, op(IBV_WR_RDMA_WRITE), 0, kRemoteMr, 1}).poll().call(kGetAsyncEvent, {1}));
  add("posted_in_error",
      ApiSeed().call(kStepQp, {0, IBV_QPS_ERR}).call(kPostSends, {0, kMore}).call(kPostRecvs, {0}).poll());
  add("reset_in_mid_flight",
      ApiSeed().call(kPostSends, {0, kMore}).call(kStepQp, {0, IBV_QPS_RESET}).poll().call(kConnect, {0, 1}).poll());
  add("drain",
      ApiSeed().call(kStepQp, {0, IBV_QPS_SQD}).call(kPostSends, {0}).poll().call(kStepQp, {0, IBV_QPS_RTS}).poll());
  add("busy", ApiSeed()
                  .call(kDeallocPd, {0})
                  .call(kDestroyCq, {0})
                  .call(kDestroyQp, {0})
                  .call(kDestroyCq, {0})
                  .call(kDeregMr, {0})
                  .call(kDeallocPd, {0}));
  add("channel", ApiSeed(true)
                     .call(kOpenDevice)
                     .call(kAllocPd)
                     .call(kCreateChannel)
                     .call(kCreateCq, {0, 0, 0, 1})
                     .call(kCreateQp)
                     .call(kConnect)
                     .call(kReqNotify)
                     .call(kPostSends)
                     .call(kStepQp, {0, IBV_QPS_ERR})
                     .call(kGetCqEvent)
                     .call(kDestroyChannel)
                     .call(kDestroyQp)
                     .call(kDestroyCq)
                     .call(kDestroyChannel));
  add("cq_overflow", ApiSeed()
                         .call(kResizeCq, {0, 1})
                         .call(kStepQp, {0, IBV_QPS_ERR})
                         .call(kPostSends, {0, kMore})
                         .poll()
                         .call(kGetAsyncEvent));
  ApiSeed regions;
  for (std::uint8_t kind = 0; kind < 8; ++kind) {
    regions.call(kRegMr, {0, 8, 0, 16, 0, kind})
        .call(kReregMr, {2, IBV_REREG_MR_CHANGE_TRANSLATION, 0, 8, 0, 16, 0, kind});
  }
  add("regions", regions);
  ApiSeed modifies;
  for (std::uint8_t bit = 0; bit < 21; ++bit) {
    std::vector<std::uint8_t> arguments{0, IBV_QPS_RTS, 1, 0, 0, 0, 0};
    arguments[3u + bit / 8] = static_cast<std::uint8_t>(1u << bit % 8);
    modifies.call(kModifyQp, arguments);
  }
  add("modify_with_each_attribute", modifies);
  add("two_contexts_on_one_device", ApiSeed(true)
                                        .call(kOpenDevice)
                                        .call(kOpenDevice)
                                        .call(kAllocPd)
                                        .call(kAllocPd, {1})
                                        .call(kCreateCq)
                                        .call(kCreateQp, {1})
                                        .call(kCloseDevice)
                                        .call(kCreateCq));
  add("everything_left_to_close",
      ApiSeed().call(kPostSends, {0, kMore}).call(kPostRecvs, {1}).call(kCloseDevice).poll());
  add("queries", ApiSeed().call(kQuery, {0, 1}).call(kQuery, {0, 1, 1}).call(kQuery, {0, 2, 0xFF, 0xFF}));
  // num_sge beyond what the QP takes, flags and opcodes that don't exist, inline that is too long.
  add("wrong_wrs", ApiSeed()
                       .call(kPostSends, {0, kOne, 0, 0, 0, 0, 0, 0, 6})
                       .call(kPostSends, {0, kOne, 0, 0, 0, 0, 0, 0, 40})
                       .call(kPostSends, {0, kOne, 0, 0xF0})
                       .call(kPostSends, {0, kOne, op(99)})
                       .call(kPostSends, {0, kOne, op(IBV_WR_BIND_MW)})
                       .call(kPostSends, {0, kOne, 0, IBV_SEND_INLINE})
                       .call(kPostSends, {0, kOne, op(IBV_WR_RDMA_READ), IBV_SEND_INLINE})
                       .call(kPostRecvs, {0, 6})
                       .poll());
}

}  // namespace uroce::fuzz
