// Lesson 26: atomics. The responder's NIC reads eight bytes, changes them, and returns what was there; no other
// atomic comes in between. Fetch-and-add counts; compare-and-swap takes a lock.
#include <cinttypes>

#include "tools/learn/verbs.h"

namespace {

/// Posts an atomic on the eight bytes at bob's `offset`; returns how it completes. The old value lands in alice's
/// buffer.
const char* atomic(learn::Endpoint& alice, learn::Endpoint& bob, ibv_wr_opcode opcode, std::uint64_t compare_add,
                   std::uint64_t swap, std::size_t offset = 0) {
  ibv_sge part = alice.sge(0, 8);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &part;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.atomic.remote_addr = reinterpret_cast<std::uintptr_t>(bob.buffer.data()) + offset;
  wr.wr.atomic.rkey = bob.mr->rkey;
  wr.wr.atomic.compare_add = compare_add;
  wr.wr.atomic.swap = swap;
  if (const int error = ibv_post_send(alice.qp, &wr, &bad)) return std::strerror(error);
  return ibv_wc_status_str(learn::wait(alice.cq).status);
}

std::uint64_t word(const learn::Endpoint& endpoint) {
  std::uint64_t value;
  std::memcpy(&value, endpoint.buffer.data(), sizeof value);
  return value;
}

}  // namespace

int main() {
  learn::Nic nic;
  learn::Endpoint alice(nic), bob(nic);
  learn::connect(nic, alice, bob);

  std::printf("1. fetch and add: tickets\n");
  for (int i = 0; i < 3; ++i) {
    atomic(alice, bob, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
    std::printf("  alice draws ticket %" PRIu64 "; bob's counter is %" PRIu64 "\n", word(alice), word(bob));
  }

  std::printf("2. compare and swap: a lock (0 = free, otherwise its owner)\n");
  std::memset(bob.buffer.data(), 0, 8);
  atomic(alice, bob, IBV_WR_ATOMIC_CMP_AND_SWP, /*compare=*/0, /*swap=*/111);
  std::printf("  owner 111 tries: found %" PRIu64 ", so %s\n", word(alice),
              word(alice) == 0 ? "it has the lock" : "no");
  atomic(alice, bob, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 222);
  std::printf("  owner 222 tries: found %" PRIu64 ", so it has to wait\n", word(alice));
  atomic(alice, bob, IBV_WR_ATOMIC_CMP_AND_SWP, 111, 0);
  std::printf("  owner 111 frees: found %" PRIu64 "; bob's word is %" PRIu64 "\n", word(alice), word(bob));

  std::printf("3. an address that is not a multiple of eight\n");
  std::printf("  %s\n", atomic(alice, bob, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 4));
}
