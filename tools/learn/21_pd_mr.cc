// Lesson 21: memory that a NIC may touch. A memory region (MR) belongs to a protection domain (PD) and has two keys:
// lkey for our own work requests, rkey for a peer that we give it to.
#include <array>

#include "tools/learn/verbs.h"

namespace {

void try_rights(ibv_pd* pd, void* memory, std::size_t size, int access, const char* words) {
  ibv_mr* mr = ibv_reg_mr(pd, memory, size, access);
  std::printf("  %-34s %s\n", words, mr != nullptr ? "registered" : std::strerror(errno));
  if (mr != nullptr) ibv_dereg_mr(mr);
}

/// One SEND from `sender`, whose buffer is named by `lkey`; returns how it completes.
ibv_wc_status send_with(learn::Nic& nic, learn::Endpoint& sender, learn::Endpoint& receiver, std::uint32_t lkey) {
  learn::connect(nic, sender, receiver);
  receiver.post_recv(1, 64);
  ibv_sge part = sender.sge(0, 16);
  part.lkey = lkey;
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &part;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  // Posting succeeds with any key: the NIC looks at it later, when it reads the memory.
  learn::need_zero(ibv_post_send(sender.qp, &wr, &bad), "ibv_post_send");
  return learn::wait(sender.cq).status;
}

}  // namespace

int main() {
  learn::Nic nic;  // Opens the device, and allocates a PD: nic.pd.
  static std::array<char, 4096> memory;

  // 1. Registering tells the NIC where the memory is. On a card it also pins the pages: they can't be swapped out or
  // move.
  ibv_mr* mr = learn::need(
      ibv_reg_mr(nic.pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ), "ibv_reg_mr");
  std::printf("MR of %zu bytes: lkey and rkey are %s numbers\n", mr->length, mr->lkey == 0 ? "zero" : "two 32-bit");
  std::printf("  our work requests name it by lkey; the peer gets address and rkey, in a message of ours\n");
  ibv_dereg_mr(mr);

  // 2. Rights. Reading locally is always allowed. REMOTE_WRITE needs LOCAL_WRITE as well.
  std::printf("rights\n");
  try_rights(nic.pd, memory.data(), memory.size(), 0, "none (local read)");
  try_rights(nic.pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE");
  try_rights(nic.pd, memory.data(), memory.size(), IBV_ACCESS_REMOTE_READ, "REMOTE_READ");
  try_rights(nic.pd, memory.data(), memory.size(), IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE without LOCAL_WRITE");
  try_rights(nic.pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
             "LOCAL_WRITE | REMOTE_WRITE");

  // 3. A PD is a wall: a QP uses MRs of its own PD only.
  ibv_pd* other = learn::need(ibv_alloc_pd(nic.context), "ibv_alloc_pd");
  ibv_mr* foreign = learn::need(ibv_reg_mr(other, memory.data(), memory.size(), 0), "ibv_reg_mr");
  std::printf("a SEND\n");
  {
    learn::Endpoint a(nic), b(nic);
    std::printf("  with an lkey of its own PD:     %s\n", ibv_wc_status_str(send_with(nic, a, b, a.mr->lkey)));
  }
  {
    learn::Endpoint a(nic), b(nic);
    std::printf("  with an lkey of another PD:     %s\n", ibv_wc_status_str(send_with(nic, a, b, foreign->lkey)));
  }
  {
    learn::Endpoint a(nic), b(nic);
    std::printf("  with an lkey that nobody made:  %s\n", ibv_wc_status_str(send_with(nic, a, b, 0xDEAD00)));
  }

  // 4. Order of destruction: first what depends.
  std::printf("ibv_dealloc_pd with an MR in it: %s\n", std::strerror(ibv_dealloc_pd(other)));
  ibv_dereg_mr(foreign);
  std::printf("ibv_dealloc_pd without:          %s\n", std::strerror(ibv_dealloc_pd(other)));
}
