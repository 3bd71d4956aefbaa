// SPDX-License-Identifier: Apache-2.0
// Memory windows, local invalidate and SEND with invalidate (IBTA Vol 1, 10.6.7, 10.6.5, 9.4.1.1).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

using nic::MwBind;
using nic::MwType;

constexpr std::uint32_t kRemote = nic::kRemoteWrite | nic::kRemoteRead | nic::kRemoteAtomic;
constexpr Setup kBindable{.mr_access = kAllAccess | nic::kMwBind};

/// A script with a window of 4096 bytes at offset 8192 of the region, once bind() is called.
struct WithWindow : Script {
  explicit WithWindow(MwType type = MwType::k2, Setup with = kBindable) : Script(with) {
    mw = *nic.mrs().add_window(pd, type);
  }
  MwBind request(std::uint32_t access = kRemote) const {
    return {mw->key, (mw->key & ~0xFFu) | ((mw->key + 1) & 0xFF), mr->key, kVa + kAt, kSize, access};
  }
  void post_bind(std::uint64_t id, const MwBind& bind, std::uint32_t flags = nic::kSignaled) {
    post_send(id, SendOp::kBindMw, 0, [&](nic::SendWr& wr) { wr.bind = bind, wr.flags = flags; });
  }
  void bind(std::uint32_t access = kRemote) {
    post_bind(1, request(access));
    EXPECT_EQ(expect_done(1, WcStatus::kSuccess).opcode, nic::WcOpcode::kBindMw);
  }
  void post_invalidate(std::uint64_t id, std::uint32_t rkey) {
    post_send(id, SendOp::kLocalInv, 0, [&](nic::SendWr& wr) { wr.rkey = rkey; });
  }
  void expect_refused(std::int64_t psn = 0) {
    expect(nak(psn, NakCode::kRemoteAccessError));
    expect_event(Event::Kind::kQpAccessErr);
    expect_state(QpState::kErr);
  }

  static constexpr std::uint32_t kAt = 8192, kSize = 4096;
  nic::Mw* mw;
};

Pkt write_at(std::int64_t psn, std::uint64_t at, std::uint32_t rkey, std::uint32_t length = 8) {
  return write_only(psn, length).at(at).rkey(rkey).ack_req();
}
Pkt send_invalidate(std::int64_t psn, std::uint32_t rkey) {
  Pkt p = packet(Opcode::kRcSendOnlyInvalidate, psn);
  p.invalidate_ = rkey;
  return p;
}

// --- access through a window
// ------------------------------------------------------------------------------------------

TEST(Window, GivesAccessOnceItIsBound) {
  for (const MwType type : {MwType::k1, MwType::k2}) {
    WithWindow s(type);
    s.bind();
    s.recv(write_at(0, s.kAt, s.mw->key));
    s.expect(ack(0));
    EXPECT_EQ(s.memory[s.kAt], 0xEE);
    s.recv(read_request(1, 8).at(s.kAt).rkey(s.mw->key));
    s.expect(read_only(1).bytes(8));
    s.recv(fetch_add(2, 1).at(s.kAt + 8).rkey(s.mw->key));
    s.expect(atomic_ack(2, 0));
  }
}

TEST(Window, UnboundItNamesNothing) {
  for (const MwType type : {MwType::k1, MwType::k2}) {
    WithWindow s(type);
    s.recv(write_at(0, s.kAt, s.mw->key));
    s.expect_refused();
  }
}

// IBTA 10.6.7.2: the key that it had before no longer names it.
TEST(Window, TheOldKeyIsGone) {
  WithWindow s;
  const std::uint32_t before = s.mw->key;
  s.bind();
  EXPECT_NE(s.mw->key, before);
  EXPECT_EQ(s.mw->key >> 8, before >> 8);
  s.recv(write_at(0, s.kAt, before));
  s.expect_refused();
}

// Programs that give nothing but a low byte run on mlx5, irdma and rxe.
TEST(Window, OfTheNewKeyTheLowByteCounts) {
  for (const std::uint32_t upper : {0u, 0x55555500u}) {
    WithWindow s;
    const std::uint32_t before = s.mw->key;
    MwBind bind = s.request();
    bind.new_key = upper | 0xBA;
    s.post_bind(3, bind);
    s.expect_done(3, WcStatus::kSuccess);
    EXPECT_EQ(s.mw->key, (before & ~0xFFu) | 0xBA);
    s.recv(write_at(0, s.kAt, s.mw->key));
    s.expect(ack(0));
  }
}

// IBTA 10.6.7.1: bounds, to the byte, at both ends.
TEST(Window, Bounds) {
  constexpr std::uint64_t kAt = WithWindow::kAt, kEnd = WithWindow::kAt + WithWindow::kSize;
  for (const auto& [at, granted] : {std::pair{kAt, true},
                                    {kEnd - 8, true},
                                    {kAt - 1, false},
                                    {kEnd - 7, false},
                                    {kEnd, false},
                                    {std::uint64_t{0}, false}}) {
    WithWindow s;
    s.bind();
    s.recv(write_at(0, at, s.mw->key));
    if (granted) {
      s.expect(ack(0));
    } else {
      s.expect_refused();
      EXPECT_EQ(s.memory[at], 0);
    }
  }
}

// The same for a message of several packets, of which only the first lies inside.
TEST(Window, TheWholeMessageMustFit) {
  WithWindow s;
  s.bind();
  s.recv(write_first(0, 4097).bytes(kMtu).at(s.kAt).rkey(s.mw->key));
  s.expect_refused();
  EXPECT_EQ(s.memory[s.kAt], 0);
}

// IBTA 10.6.7.1: its rights are its own, not those of the region.
TEST(Window, Rights) {
  const auto refused = [](std::uint32_t access, const Pkt& p) {
    WithWindow s;
    s.bind(access);
    Pkt mine = p;
    mine.rkey_ = s.mw->key;
    s.recv(mine);
    s.expect_refused();
  };
  refused(nic::kRemoteRead, write_only(0, 8).at(WithWindow::kAt));
  refused(nic::kRemoteWrite, read_request(0, 8).at(WithWindow::kAt));
  refused(nic::kRemoteWrite | nic::kRemoteRead, fetch_add(0, 1).at(WithWindow::kAt));
  refused(0, write_only(0, 8).at(WithWindow::kAt));
}

// A window on a region that peers may not touch themselves.
TEST(Window, GivesRightsThatTheRegionDoesNot) {
  WithWindow s(MwType::k2, {.mr_access = nic::kLocalWrite | nic::kMwBind});
  s.bind();
  s.recv(write_at(0, s.kAt, s.mw->key));
  s.expect(ack(0));
  s.recv(write_at(1, s.kAt, s.mr->key));
  s.expect_refused(1);
}

// IBTA 10.6.7.1: a zero-based window begins at address 0.
TEST(Window, ZeroBased) {
  WithWindow s;
  s.bind(kRemote | nic::kZeroBased);
  s.recv(write_only(0, 8).va(0).rkey(s.mw->key).ack_req());
  s.expect(ack(0));
  s.recv(write_only(1, 8).va(s.kSize - 8).rkey(s.mw->key).ack_req());
  s.expect(ack(1));
  EXPECT_EQ(s.memory[s.kAt], 0xEE);
  EXPECT_EQ(s.memory[s.kAt + s.kSize - 1], 0xEE);
  EXPECT_EQ(s.memory[s.kAt + s.kSize], 0);
  s.recv(write_only(2, 8).va(s.kSize - 7).rkey(s.mw->key).ack_req());
  s.expect_refused(2);
}

// IBTA 10.6.7.2.4: a 2B window belongs to the QP it was bound with; one of type 1 to every QP of its PD.
TEST(Window, OtherQpsOfThePd) {
  for (const MwType type : {MwType::k1, MwType::k2}) {
    WithWindow s(type);
    s.bind();
    const auto by = [&](std::uint32_t qpn) {
      return s.nic.mrs().resolve_remote(s.mw->key, s.kVa + s.kAt, 8, s.pd, qpn, nic::kRemoteWrite).ok();
    };
    EXPECT_TRUE(by(s.qp->qpn()));
    EXPECT_EQ(by(s.qp->qpn() + 1), type == MwType::k1);
    const nic::Pd* const other = s.nic.alloc_pd();
    EXPECT_FALSE(s.nic.mrs().resolve_remote(s.mw->key, s.kVa + s.kAt, 8, other, s.qp->qpn(), nic::kRemoteWrite).ok());
  }
}

// A window's key is an R_Key only, also when local write is asked for, as programs do.
TEST(Window, IsNoLocalKey) {
  WithWindow s;
  s.bind(kRemote | nic::kLocalWrite);
  EXPECT_FALSE(s.nic.mrs().resolve(s.mw->key, s.kVa + s.kAt, 8, s.pd, 0).ok());
}

// --- binding
// ----------------------------------------------------------------------------------------------------------

// IBTA C10-72 .. C10-75, o10-37.2.40, o10-36.2.2: what can't be bound. The QP goes to ERR, and nothing has changed.
TEST(Bind, Refused) {
  struct Row {
    const char* what;
    MwType type;
    std::function<void(WithWindow&, MwBind&)> change;
  };
  const Row rows[] = {
      {"no such region", MwType::k2, [](auto&, auto& b) { b.lkey ^= 1; }},
      {"no region", MwType::k2, [](auto&, auto& b) { b.lkey = 0; }},
      {"the window itself as region", MwType::k2, [](auto&, auto& b) { b.lkey = b.window; }},
      {"no such window", MwType::k2, [](auto&, auto& b) { b.window += 256, b.new_key += 256; }},
      {"a region as window", MwType::k2, [](auto& s, auto& b) { b.window = b.new_key = s.mr->key; }},
      {"before the region", MwType::k2, [](auto& s, auto& b) { b.addr = s.kVa - 1; }},
      {"over its end", MwType::k2, [](auto& s, auto& b) { b.addr = s.kVa + (1 << 20) - b.length + 1; }},
      {"longer than 64 bits", MwType::k2, [](auto&, auto& b) { b.length = ~std::uint64_t{0}; }},
      {"length 0 of type 2", MwType::k2, [](auto&, auto& b) { b.length = 0; }},
      {"unknown rights", MwType::k2, [](auto&, auto& b) { b.access |= 1u << 20; }},
      {"zero-based of type 1", MwType::k1, [](auto&, auto& b) { b.access |= nic::kZeroBased; }},
      {"another PD's region", MwType::k2,
       [](auto& s, auto& b) {
         b.lkey =
             (*s.nic.mrs().add(s.nic.alloc_pd(), s.memory.data(), s.memory.size(), s.kVa, kBindable.mr_access))->key;
       }},
      {"another PD's window", MwType::k2,
       [](auto& s, auto& b) {
         b.window = (*s.nic.mrs().add_window(s.nic.alloc_pd(), MwType::k2))->key;
         b.new_key = b.window + 1;
       }},
      {"a region without the right", MwType::k2,
       [](auto& s, auto& b) {
         b.lkey = (*s.nic.mrs().add(s.pd, s.memory.data(), s.memory.size(), s.kVa, kAllAccess))->key;
       }},
      {"write without local write", MwType::k2,
       [](auto& s, auto& b) {
         b.lkey = (*s.nic.mrs().add(s.pd, s.memory.data(), s.memory.size(), s.kVa, nic::kMwBind))->key;
       }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    WithWindow s(row.type);
    MwBind bind = s.request();
    row.change(s, bind);
    const std::uint32_t key = s.mw->key;
    s.post_bind(3, bind, 0);  // Although it is not signalled.
    s.expect_done(3, WcStatus::kMwBindErr);
    s.expect_state(QpState::kErr);
    EXPECT_EQ(s.mw->key, key);
    EXPECT_EQ(s.mw->mr, nullptr);
    EXPECT_EQ(s.mr->windows, 0u);
  }
}

// Remote read alone needs no local write.
TEST(Bind, ReadOnlyRegion) {
  WithWindow s(MwType::k2, {.mr_access = nic::kMwBind});
  s.bind(nic::kRemoteRead);
  s.recv(read_request(0, 8).at(s.kAt).rkey(s.mw->key));
  s.expect(read_only(0));
}

// IBTA 10.6.7.2.2: a type 2 window is invalidated first; one of type 1 moves with every bind.
TEST(Bind, Again) {
  WithWindow two(MwType::k2);
  two.bind();
  two.post_bind(2, two.request());
  two.expect_done(2, WcStatus::kMwBindErr);
  two.expect_state(QpState::kErr);

  WithWindow one(MwType::k1);
  one.bind();
  const std::uint32_t first = one.mw->key;
  MwBind moved = one.request();
  moved.addr += 4096;
  one.post_bind(2, moved);
  one.expect_done(2, WcStatus::kSuccess);
  EXPECT_EQ(one.mr->windows, 1u);
  one.recv(write_at(0, one.kAt + 4096, one.mw->key));
  one.expect(ack(0));
  one.recv(write_at(1, one.kAt + 4096, first));
  one.expect_refused(1);
}

// IBTA 10.6.7.2.1: a type 1 window is taken back by binding it to no bytes.
TEST(Bind, Type1ToNothing) {
  WithWindow s(MwType::k1);
  s.bind();
  MwBind nothing = s.request(0);
  nothing.lkey = 0, nothing.addr = 0, nothing.length = 0;
  s.post_bind(2, nothing);
  s.expect_done(2, WcStatus::kSuccess);
  EXPECT_EQ(s.mr->windows, 0u);
  s.recv(write_at(0, s.kAt, s.mw->key));
  s.expect_refused();
}

// IBTA 10.6.7.? and ibv_dereg_mr(3): a region with windows stays as it is.
TEST(Bind, HoldsTheRegion) {
  WithWindow s;
  s.bind();
  EXPECT_EQ(s.nic.mrs().remove(s.mr), EBUSY);
  EXPECT_EQ(s.nic.mrs().change(s.mr, {.change_access = true, .access = 0}), EBUSY);
  s.post_invalidate(2, s.mw->key);
  s.expect_done(2, WcStatus::kSuccess);
  EXPECT_EQ(s.nic.mrs().remove(s.mr), 0);
}

// Windows go with what they belong to, and let go of the region.
TEST(Bind, EndsWithTheWindowAndWithTheQp) {
  WithWindow s;
  s.bind();
  nic::Mw* const other = *s.nic.mrs().add_window(s.pd, MwType::k2);
  s.post_bind(2, {other->key, other->key, s.mr->key, s.kVa, 16, kRemote});
  s.expect_done(2, WcStatus::kSuccess);
  EXPECT_EQ(s.mr->windows, 2u);
  const std::uint32_t key = s.mw->key;
  s.nic.mrs().remove_window(s.mw);
  EXPECT_EQ(s.mr->windows, 1u);
  s.recv(write_at(0, s.kAt, key));
  s.expect_refused();
  s.nic.destroy_qp(s.qp);
  EXPECT_EQ(s.mr->windows, 0u);
  EXPECT_EQ(other->mr, nullptr);
}

TEST(Bind, WindowsAreInTheirPd) {
  Script s;
  nic::Pd* const pd = s.nic.alloc_pd();
  nic::Mw* const mw = *s.nic.mrs().add_window(pd, MwType::k1);
  EXPECT_EQ(s.nic.dealloc_pd(pd), EBUSY);
  s.nic.mrs().remove_window(mw);
  EXPECT_EQ(s.nic.dealloc_pd(pd), 0);
}

// --- order (IBTA 10.8.3.3)
// --------------------------------------------------------------------------------------------

// A bind is executed without waiting for what is under way, and before what follows goes out; it completes in order.
TEST(LocalOrder, CompletesInOrder) {
  WithWindow s;
  s.post_send(1, SendOp::kWrite, 8);
  s.post_bind(2, s.request());
  s.post_send(3, SendOp::kWrite, 8);
  s.expect(write_only(0, 8));
  s.expect(write_only(1, 8));  // It took no PSN.
  EXPECT_NE(s.mw->mr, nullptr) << "before the announcement of its key goes out";
  s.expect_not_done();
  s.recv(ack(1).msn(2));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect_done(2, WcStatus::kSuccess);
  s.expect_done(3, WcStatus::kSuccess);
}

// What was executed is not executed again when packets are repeated: here it would fail, for it is bound.
TEST(LocalOrder, IsExecutedOnce) {
  WithWindow s;
  s.post_send(1, SendOp::kWrite, 8);
  s.post_bind(2, s.request());
  s.post_send(3, SendOp::kWrite, 8);
  s.expect(write_only(0, 8));
  s.expect(write_only(1, 8));
  s.recv(sequence_nak(0));
  s.expect(write_only(0, 8));
  s.expect(write_only(1, 8));
  s.recv(sequence_nak(1));  // Also when the rewind goes only over it.
  s.expect_done(1, WcStatus::kSuccess);
  s.expect_done(2, WcStatus::kSuccess);
  s.expect(write_only(1, 8));
  s.recv(ack(1).msn(2));
  s.expect_done(3, WcStatus::kSuccess);
  s.expect_state(QpState::kRts);
}

// A fenced one waits for the READs before it.
TEST(LocalOrder, Fence) {
  WithWindow s;
  s.post_send(1, SendOp::kRead, 8);
  s.post_bind(2, s.request(), nic::kSignaled | nic::kFence);
  s.expect(read_request(0, 8));
  EXPECT_EQ(s.mw->mr, nullptr);
  s.recv(read_only(0).bytes(8));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect_done(2, WcStatus::kSuccess);
  EXPECT_NE(s.mw->mr, nullptr);
}

// One that fails waits with that until those before it have completed; what follows is flushed.
TEST(LocalOrder, AFailureWaitsForItsTurn) {
  WithWindow s;
  s.post_send(1, SendOp::kWrite, 8);
  s.post_invalidate(2, 12345);
  s.post_send(3, SendOp::kWrite, 8);
  s.expect(write_only(0, 8));
  s.expect_silence();
  s.expect_state(QpState::kRts);
  s.recv(ack(0).msn(1));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect_done(2, WcStatus::kMwBindErr);
  s.expect_done(3, WcStatus::kWrFlushErr);
  s.expect_state(QpState::kErr);
}

// When one before it fails it is flushed, whether it was executed or not.
TEST(LocalOrder, IsFlushed) {
  WithWindow s;
  s.post_send(1, SendOp::kWrite, 8);
  s.post_bind(2, s.request());
  s.expect(write_only(0, 8));
  s.recv(nak(0, NakCode::kRemoteAccessError));
  s.expect_done(1, WcStatus::kRemAccessErr);
  s.expect_done(2, WcStatus::kWrFlushErr);
  s.post_bind(3, s.request());
  s.expect_done(3, WcStatus::kWrFlushErr);
}

// Unsignalled ones leave no trace, whatever there is of them.
TEST(LocalOrder, Unsignalled) {
  WithWindow s(MwType::k1);
  for (int i = 0; i < 1000; ++i) s.post_bind(2, s.request(), 0);
  s.post_bind(3, s.request());
  s.expect_done(3, WcStatus::kSuccess);
}

// Many of them behind one message: they complete together, and so does the queue's room.
TEST(LocalOrder, ManyBehindOneMessage) {
  WithWindow s(MwType::k1);
  s.post_send(1, SendOp::kWrite, 8);
  s.expect(write_only(0, 8));
  for (std::uint64_t id = 2; id <= 64; ++id) s.post_bind(id, s.request());
  s.recv(ack(0).msn(1));
  for (std::uint64_t id = 1; id <= 64; ++id) s.expect_done(id, WcStatus::kSuccess);
}

// In SQD nothing new begins (10.3.1); a bind is no exception.
TEST(LocalOrder, WaitsInSqd) {
  WithWindow s;
  s.move_to(QpState::kSqd);
  s.post_bind(2, s.request());
  EXPECT_EQ(s.mw->mr, nullptr);
  s.move_to(QpState::kRts);
  s.expect_done(2, WcStatus::kSuccess);
}

// --- invalidation
// -----------------------------------------------------------------------------------------------------

TEST(Invalidate, Locally) {
  WithWindow s;
  s.bind();
  const std::uint32_t key = s.mw->key;
  s.post_invalidate(2, key);
  EXPECT_EQ(s.expect_done(2, WcStatus::kSuccess).opcode, nic::WcOpcode::kLocalInv);
  EXPECT_EQ(s.mr->windows, 0u);
  s.post_bind(3, s.request());  // And it can be bound again.
  s.expect_done(3, WcStatus::kSuccess);
  s.recv(write_at(0, s.kAt, key));
  s.expect_refused();
}

// IBTA 10.6.5: only a bound window of type 2, under its key, by its QP.
TEST(Invalidate, LocallyRefused) {
  const auto refused = [](WithWindow& s, std::uint32_t rkey) {
    s.post_invalidate(2, rkey);
    s.expect_done(2, WcStatus::kMwBindErr);
    s.expect_state(QpState::kErr);
  };
  WithWindow unbound;
  refused(unbound, unbound.mw->key);
  WithWindow stale;
  stale.bind();
  refused(stale, stale.mw->key - 1);
  WithWindow type1(MwType::k1);
  type1.bind();
  refused(type1, type1.mw->key);
  WithWindow region;
  refused(region, region.mr->key);
  WithWindow nothing;
  refused(nothing, 0);
  WithWindow other;
  other.bind();
  EXPECT_FALSE(other.nic.mrs().invalidate(other.mw->key, other.pd, other.qp->qpn() + 1));
  EXPECT_TRUE(other.nic.mrs().invalidate(other.mw->key, other.pd, other.qp->qpn()));
}

// IBTA 9.4.1.1: SEND with invalidate takes the window back before the receive completes, and the completion says so.
TEST(Invalidate, ByThePeer) {
  WithWindow s;
  s.bind();
  const std::uint32_t key = s.mw->key;
  s.post_recv(7, 100);
  s.recv(send_invalidate(0, key).bytes(4).ack_req());
  s.expect(ack(0).msn(1));
  const Completion c = s.expect_done(7, WcStatus::kSuccess);
  EXPECT_EQ(c.flags, static_cast<std::uint32_t>(nic::kWcWithInv));
  EXPECT_EQ(c.invalidated_rkey, key);
  EXPECT_EQ(c.byte_len, 4u);
  s.recv(write_at(1, s.kAt, key));
  s.expect_refused(1);
}

// Only its last packet says which, and does it; a duplicate does nothing.
TEST(Invalidate, ByALongMessage) {
  WithWindow s;
  s.bind();
  s.post_recv(7, 4096);
  s.recv(send_first(0).bytes(kMtu));
  EXPECT_NE(s.mw->mr, nullptr);
  Pkt last = packet(Opcode::kRcSendLastInvalidate, 1).bytes(4).ack_req();
  last.invalidate_ = s.mw->key;
  s.recv(last);
  s.expect(ack(1).msn(1));
  EXPECT_EQ(s.expect_done(7, WcStatus::kSuccess).invalidated_rkey, s.mw->key);
  s.post_bind(2, {s.mw->key, s.mw->key, s.mr->key, s.kVa, 16, kRemote});  // Under the same key.
  s.expect_done(2, WcStatus::kSuccess);
  s.recv(last);
  s.expect(ack(1));
  EXPECT_NE(s.mw->mr, nullptr);
}

// IBTA 10.6.5, 9.9.3 and 11.6.2: what can't be invalidated is an access violation, and the receive that the message has
// used says so.
TEST(Invalidate, ByThePeerRefused) {
  const auto refused = [](WithWindow& s, std::uint32_t rkey) {
    s.post_recv(7, 100);
    s.recv(send_invalidate(0, rkey).bytes(4).ack_req());
    s.expect_refused();
    s.expect_done(7, WcStatus::kRemInvReqErr);
  };
  WithWindow region;
  refused(region, region.mr->key);
  WithWindow unbound;
  refused(unbound, unbound.mw->key);
  WithWindow type1(MwType::k1);
  type1.bind();
  refused(type1, type1.mw->key);
  WithWindow unknown;
  refused(unknown, 0xFFFFFFFF);
  EXPECT_EQ(region.mr->windows, 0u);
}

// The requester's side of it: which packet carries the key.
TEST(Invalidate, Sending) {
  Script s;
  s.post_send(1, SendOp::kSendInv, kMtu + 4, [](nic::SendWr& wr) { wr.rkey = 0x12345678; });
  s.expect(send_first(0));
  s.recv(ack(0).credits(31).msn(0));
  Pkt last = packet(Opcode::kRcSendLastInvalidate, 1);
  last.invalidate_ = 0x12345678;
  s.expect(last);
  s.recv(ack(1).msn(1));
  s.expect_done(1, WcStatus::kSuccess);
}

// The requester repeats a READ while the answer is on its way to it, and then takes the window back: the READ that
// comes late must not undo what has been done since.
TEST(Invalidate, BehindAReadThatIsRepeated) {
  WithWindow s;
  s.bind();
  s.post_recv(7, 100);
  const Pkt read = read_request(0, 8).at(s.kAt).rkey(s.mw->key);
  s.recv(read);
  s.expect(read_only(0));
  s.recv_together({read, send_invalidate(1, s.mw->key).bytes(8).ack_req()});
  s.expect(ack(1).msn(2));
  s.expect_done(7, WcStatus::kSuccess);
  s.expect_state(QpState::kRts);
}

// A READ whose window is taken back before its answer is complete ends with a NAK (9.7.4.1.5).
TEST(Invalidate, UnderARead) {
  WithWindow s;
  s.bind();
  s.post_invalidate(2, s.mw->key);
  s.expect_done(2, WcStatus::kSuccess);
  s.recv(read_request(0, 4000).at(s.kAt).rkey(s.mw->key));
  s.expect_refused();
}

// A WRITE of several packets whose window is taken back in between.
TEST(Invalidate, UnderAWrite) {
  WithWindow s;
  s.bind();
  s.recv(write_first(0, kMtu + 8).bytes(kMtu).at(s.kAt).rkey(s.mw->key));
  EXPECT_EQ(s.memory[s.kAt], 0xEE);
  s.post_invalidate(2, s.mw->key);
  s.expect_done(2, WcStatus::kSuccess);
  s.recv(write_last(1).bytes(8).ack_req());
  s.expect_refused(1);
  EXPECT_EQ(s.memory[s.kAt + kMtu], 0);
}

}  // namespace
}  // namespace uroce::test::rules
