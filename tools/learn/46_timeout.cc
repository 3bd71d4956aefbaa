// Lesson 46: when does the error come? timeout and retry_cnt say so in advance. The peer here does not exist, so every
// SEND runs into its timer.
#include "tools/learn/verbs.h"

namespace {

void measure(learn::Nic& nic, learn::Nic& peer, std::uint8_t timeout, std::uint8_t retry_cnt) {
  learn::Endpoint alice(nic);
  // QP number 0xFFFFFD: nobody has it. Packets to unknown QPs are dropped without an answer.
  learn::connect(nic, alice.qp, 0xFFFFFD, peer.gid, 0x100, 0x200, {.timeout = timeout, .retry_cnt = retry_cnt});
  const double one = 4.096e-3 * static_cast<double>(1u << timeout);  // ms
  const double computed = one * (retry_cnt + 1);

  const auto began = std::chrono::steady_clock::now();
  alice.post(IBV_WR_SEND, 1, 16);
  const ibv_wc wc = learn::wait(alice.cq);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  std::printf(
      "timeout %2u, retry_cnt %u: %d transmissions of %.2f ms each; at least %6.1f ms, measured ~%.1f ms: %s%s\n",
      timeout, retry_cnt, retry_cnt + 1, one, computed, took.count(), ibv_wc_status_str(wc.status),
      took.count() < computed ? " TOO EARLY" : "");
}

}  // namespace

int main() {
  learn::Nic nic(0), peer(1);
  measure(nic, peer, 10, 0);
  measure(nic, peer, 10, 3);
  measure(nic, peer, 12, 3);
  measure(nic, peer, 13, 6);
  std::printf("the usual 14 and 7: %.2f s; 18 and 7: %.1f s\n", 4.096e-6 * (1 << 14) * 8, 4.096e-6 * (1 << 18) * 8);
}
