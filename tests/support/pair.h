// SPDX-License-Identifier: Apache-2.0
// Two NICs with one connected RC QP each, on a simulated wire: what most transport tests need.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/sim/world.h"
#include "proto/entropy.h"
#include "proto/packet.h"
#include "tests/support/memory.h"
#include "verbs/nic/device/nic.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::test {

using namespace std::chrono_literals;
using nic::Completion;
using nic::Errno;
using nic::WcStatus;
using proto::Gid;
using proto::Psn;

struct PairOptions {
  std::uint32_t mtu_code = 3;  ///< 1024 bytes.
  std::uint32_t psn_a = 0x100, psn_b = 0x200;
  std::uint8_t timeout = 14, retry_cnt = 7, rnr_retry = 7, min_rnr_timer = 12;
  std::uint8_t rd_atomic = 4;
  std::uint32_t qp_access = nic::kLocalWrite | nic::kRemoteWrite | nic::kRemoteRead | nic::kRemoteAtomic;
  std::uint32_t mr_access = nic::kLocalWrite | nic::kRemoteWrite | nic::kRemoteRead | nic::kRemoteAtomic;
  std::uint32_t cqe = 1024;
  std::uint32_t max_wr = 64;
  std::size_t memory = 1 << 20;
  std::uint64_t window_bytes = 160 * 1024;
  bool ipv6 = false;
  engine::sim::WorldConfig world{};
  nic::QpType type = nic::QpType::kRc;
};

/// One NIC with everything a QP needs.
struct Side {
  /// `base`: the address by which WRs name the first byte of `memory`. Not where it lies, so that packets never vary.
  Side(Gid address, std::uint64_t base, const PairOptions& o)
      : gid(address),
        memory(o.memory),
        nic(nic::NicConfig{.gids = {{}, address}, .window_bytes = o.window_bytes}),
        base_(base) {
    pd = nic.alloc_pd();
    cq = *nic.create_cq(o.cqe, nullptr);
    mr = *nic.mrs().add(pd, memory.data(), memory.size(), va(), o.mr_access);
    nic::QpInit init;
    init.type = o.type;
    init.pd = pd;
    init.send_cq = init.recv_cq = cq;
    init.max_send_wr = init.max_recv_wr = o.max_wr;
    init.max_send_sge = init.max_recv_sge = 16;
    init.max_inline = 256;
    qp = *nic.create_qp(init);
  }

  /// From RESET to RTS; `at` has what the transitions need, and its state does not matter.
  void bring_up(uroce::nic::QpAttr at) {
    using namespace uroce::nic;
    for (QpState to : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      at.state = to;
      const std::uint32_t needed = check_transition(qp->type(), qp->state(), to, kAttrState).offending;
      ASSERT_EQ(nic.modify_qp(qp, at, kAttrState | needed), 0);
    }
  }

  std::uint64_t va() const { return base_; }
  nic::Sge sge(std::size_t offset, std::size_t length) const {
    return {va() + offset, static_cast<std::uint32_t>(length), mr->key};
  }
  void fill(std::uint8_t seed) {
    // Repeats itself after 64 KiB, and is copied from there on: bytes one by one are half of what sanitized tests run.
    std::uint8_t* byte = memory.data();
    const std::size_t size = memory.size(), once = std::min<std::size_t>(size, 1 << 16);
    for (std::size_t i = 0; i < once; ++i) byte[i] = static_cast<std::uint8_t>(seed + i + (i >> 8));
    for (std::size_t i = once; i < size; i += once) std::memcpy(byte + i, byte, std::min(once, size - i));
  }
  std::vector<Completion> poll() {
    polled_.resize(cq->capacity());
    const auto count = static_cast<std::ptrdiff_t>(cq->poll(polled_));
    return {polled_.begin(), polled_.begin() + count};
  }

  Gid gid;
  Memory memory;
  nic::Nic nic;
  nic::Pd* pd;
  nic::Cq* cq;
  nic::Mr* mr;
  nic::Qp* qp;
  engine::sim::NodeId node{};

 private:
  std::uint64_t base_;
  std::vector<Completion> polled_;  ///< Room for poll(), which is called for every packet.
};

/// What a QP of `local` needs to be connected to that of `remote`.
inline nic::QpAttr connected_attr(const PairOptions& o, const Side& local, const Side& remote, std::uint32_t sq_psn,
                                  std::uint32_t rq_psn) {
  nic::QpAttr attr;
  attr.access = o.qp_access;
  attr.sgid_index = 1;
  attr.path.source = local.gid;
  attr.path.destination = remote.gid;
  attr.path.source_port = proto::flow_source_port(0, local.qp->qpn(), remote.qp->qpn());
  attr.path_mtu = static_cast<std::uint8_t>(o.mtu_code);
  attr.timeout = o.timeout;
  attr.retry_cnt = o.retry_cnt;
  attr.rnr_retry = o.rnr_retry;
  attr.min_rnr_timer = o.min_rnr_timer;
  attr.max_rd_atomic = attr.max_dest_rd_atomic = o.rd_atomic;
  attr.sq_psn = Psn{sq_psn};
  attr.rq_psn = Psn{rq_psn};
  attr.dest_qpn = remote.qp->qpn();
  return attr;
}

/// A packet that one side sent, as the tap saw it.
struct Seen {
  char from;  ///< 'a' or 'b'.
  proto::Opcode opcode;
  std::uint32_t psn;
  int syndrome = -1;  ///< From the AETH, or -1.
  std::size_t payload = 0;
  bool ack_req = false;
  std::uint32_t read_length = 0;  ///< DmaLength of a RETH.
};

class Pair {
 public:
  explicit Pair(PairOptions options = {})
      : o(std::move(options)), a(address(1), 0x10000000, o), b(address(2), 0x20000000, o), world(o.world) {
    a.node = world.attach(a.nic, {a.gid});
    b.node = world.attach(b.nic, {b.gid});
    a.fill(0x10);
    b.fill(0x80);
    world.set_tap([this](engine::sim::TapPoint point, const engine::sim::Packet& packet, Instant now) {
      if (point == engine::sim::TapPoint::kSent) record(packet);
      if (on_packet) on_packet(point, packet, now);
    });
    connect(a, b, o.psn_a, o.psn_b);
    connect(b, a, o.psn_b, o.psn_a);
  }

  nic::QpAttr attr(const Side& local, const Side& remote, std::uint32_t sq_psn, std::uint32_t rq_psn) const {
    return connected_attr(o, local, remote, sq_psn, rq_psn);
  }
  void connect(Side& local, const Side& remote, std::uint32_t sq_psn, std::uint32_t rq_psn) {
    local.bring_up(attr(local, remote, sq_psn, rq_psn));
  }

  Errno send(Side& side, nic::SendWr wr, std::vector<nic::Sge> sges) {
    wr.sges = sges;
    const Errno error = side.nic.post_send(side.qp, wr);
    world.kick(side.node);
    return error;
  }
  Errno receive(Side& side, std::uint64_t wr_id, std::vector<nic::Sge> sges) {
    const Errno error = side.nic.post_recv(side.qp, {wr_id, sges});
    world.kick(side.node);
    return error;
  }
  /// Runs until nothing moves, and returns what the side's CQ got.
  std::vector<Completion> run(Side& side) {
    EXPECT_EQ(world.run_idle(), engine::sim::Outcome::kDone);
    return side.poll();
  }
  std::vector<nic::Event> events(Side& side) {
    std::vector<nic::Event> out;
    while (auto e = side.nic.poll_event()) out.push_back(*e);
    return out;
  }
  /// Packets sent by `from` with `opcode`.
  std::vector<Seen> seen_from(char from, proto::Opcode opcode) const {
    std::vector<Seen> out;
    for (const Seen& s : seen) {
      if (s.from == from && s.opcode == opcode) out.push_back(s);
    }
    return out;
  }

  PairOptions o;
  Side a, b;
  engine::sim::World world;
  std::vector<Seen> seen;
  engine::sim::Tap on_packet;  ///< Sees what `seen` is made from, and deliveries too.

 private:
  Gid address(std::uint8_t last) const {
    if (!o.ipv6) return Gid::from_v4(10, 0, 0, last);
    return Gid{{0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
  }
  void record(const engine::sim::Packet& packet);
};

inline nic::SendWr wr(std::uint64_t id, nic::SendOp op, std::uint32_t flags = nic::kSignaled) {
  nic::SendWr w;
  w.wr_id = id;
  w.op = op;
  w.flags = flags;
  return w;
}
/// A WRITE, READ or atomic on the peer's memory.
inline nic::SendWr remote_wr(std::uint64_t id, nic::SendOp op, const Side& peer, std::size_t offset,
                             std::uint32_t flags = nic::kSignaled) {
  nic::SendWr w = wr(id, op, flags);
  w.remote_addr = peer.va() + offset;
  w.rkey = peer.mr->key;
  return w;
}

}  // namespace uroce::test
