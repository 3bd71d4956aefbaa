// Lesson 27: a program with many queue pairs, in two processes. Each QP has its own queues; all share one completion
// queue, and wr_id says which QP a completion belongs to. What both must agree on goes over a socket first.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tools/learn/verbs.h"

namespace {

constexpr std::uint32_t kQps = 4, kMessages = 3;

/// What each side tells the other, before any RDMA: the control plane. Both run on one machine here, so the bytes go as
/// they are; over a network, give every field an order of bytes.
struct Metadata {
  std::uint32_t qps = 0;
  std::array<std::uint32_t, kQps> qpn{}, psn{};
  ibv_gid gid{};
};

/// Sends ours and returns the peer's. The socket is blocking, and the message small.
Metadata exchange(int peer, const Metadata& ours) {
  Metadata theirs;
  if (write(peer, &ours, sizeof ours) != sizeof ours ||
      recv(peer, &theirs, sizeof theirs, MSG_WAITALL) != sizeof theirs) {
    std::fprintf(stderr, "the peer has gone\n");
    std::exit(1);
  }
  return theirs;
}

/// Both sides wait here for each other: nobody sends before the other one can receive.
void meet(int peer) {
  char byte = 'm';
  if (write(peer, &byte, 1) != 1 || read(peer, &byte, 1) != 1) std::exit(1);
}

// wr_id is 64 bits of ours: which QP in the upper half, which work request in the lower.
constexpr std::uint64_t wr_id(std::uint64_t qp, std::uint64_t n) { return qp << 32 | n; }

void run(bool server, int peer) {
  learn::Nic nic;
  std::array<char, kQps * 64> buffer{};
  const int access = IBV_ACCESS_LOCAL_WRITE;
  ibv_mr* mr = learn::need(ibv_reg_mr(nic.pd, buffer.data(), buffer.size(), access), "ibv_reg_mr");
  // One CQ for all: it must have room for every work request that can be under way.
  ibv_cq* cq = learn::need(ibv_create_cq(nic.context, kQps * kMessages, nullptr, nullptr, 0), "ibv_create_cq");

  std::array<ibv_qp*, kQps> qps{};
  Metadata ours{.qps = kQps, .gid = nic.gid};
  for (std::uint32_t i = 0; i < kQps; ++i) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {
        .max_send_wr = kMessages, .max_recv_wr = kMessages, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    init.qp_type = IBV_QPT_RC;
    qps[i] = learn::need(ibv_create_qp(nic.pd, &init), "ibv_create_qp");
    ours.qpn[i] = qps[i]->qp_num;
    ours.psn[i] = 1000 * (i + 1);
  }

  const Metadata theirs = exchange(peer, ours);
  if (theirs.qps != ours.qps) {  // The mistake that hangs: the side with more QPs would wait for ever.
    std::fprintf(stderr, "the peer has %u queue pairs, we have %u\n", theirs.qps, ours.qps);
    std::exit(1);
  }
  for (std::uint32_t i = 0; i < kQps; ++i) {
    learn::connect(nic, qps[i], theirs.qpn[i], theirs.gid, ours.psn[i], theirs.psn[i]);
    for (std::uint32_t n = 0; server && n < kMessages; ++n) {
      ibv_sge part{reinterpret_cast<std::uintptr_t>(buffer.data() + 64 * i), 64, mr->lkey};
      ibv_recv_wr wr{.wr_id = wr_id(i, n), .next = nullptr, .sg_list = &part, .num_sge = 1}, *bad = nullptr;
      learn::need_zero(ibv_post_recv(qps[i], &wr, &bad), "ibv_post_recv");
    }
  }
  meet(peer);  // The server's receives are posted now.

  for (std::uint32_t n = 0; !server && n < kMessages; ++n) {
    for (std::uint32_t i = 0; i < kQps; ++i) {
      ibv_sge part{reinterpret_cast<std::uintptr_t>(buffer.data() + 64 * i), 16 * (i + 1), mr->lkey};
      ibv_send_wr wr{}, *bad = nullptr;
      wr.wr_id = wr_id(i, n);
      wr.sg_list = &part;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_SEND;
      wr.send_flags = IBV_SEND_SIGNALED;
      learn::need_zero(ibv_post_send(qps[i], &wr, &bad), "ibv_post_send");
    }
  }

  std::array<std::uint32_t, kQps> completed{}, bytes{};
  for (std::uint32_t n = 0; n < kQps * kMessages; ++n) {
    const ibv_wc wc = learn::wait(cq);
    if (wc.status != IBV_WC_SUCCESS) std::printf("%s\n", ibv_wc_status_str(wc.status));
    const auto i = wc.wr_id >> 32;
    ++completed[i];
    if (server) bytes[i] += wc.byte_len;
  }
  for (std::uint32_t i = 0; i < kQps; ++i) {
    std::printf("%s: QP %u: %u %s completed", server ? "server" : "client", i, completed[i],
                server ? "receives" : "SENDs");
    if (server) std::printf(", %u bytes", bytes[i]);
    std::printf("\n");
  }
  meet(peer);  // Nobody destroys a QP whose peer still waits for an ACK.
  for (ibv_qp* qp : qps) ibv_destroy_qp(qp);
  ibv_destroy_cq(cq);
  ibv_dereg_mr(mr);
}

}  // namespace

int main() {
  std::array<int, 2> pair{};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) return 1;
  const pid_t child = fork();  // Before anything is opened: RDMA objects do not survive a fork.
  if (child == 0) {
    close(pair[1]);
    run(true, pair[0]);
    return 0;
  }
  close(pair[0]);
  run(false, pair[1]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}
