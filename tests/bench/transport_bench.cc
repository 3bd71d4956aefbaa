// SPDX-License-Identifier: Apache-2.0
// What one packet costs in the NIC: two of them, packets handed from one to the other in memory. ICRC and the copy of
// the payload included, no system calls, no simulated wire.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <vector>

#include "proto/base/check.h"
#include "verbs/ibverbs/host/flight_recorder.h"
#include "verbs/nic/device/nic.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::nic {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kAllAccess = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
constexpr std::uint32_t kDepth = 16;
constexpr std::size_t kMemory = 1 << 20;

std::unique_ptr<ibv::FlightRecorder> make_recorder(Gid gid, bool wanted) {
  if (!wanted) return nullptr;
  auto made = ibv::FlightRecorder::make(0, gid, "");
  UROCE_ASSERT(made.ok());
  return std::move(*made);
}

struct Station {
  Station(Gid gid, std::uint64_t base, int qp_count, bool recorded)
      : address(gid),
        memory(kMemory, 7),
        recorder(make_recorder(gid, recorded)),
        nic(NicConfig{.gids = {{}, gid}, .trace = recorder.get()}),
        pd(nic.alloc_pd()) {
    cq = *nic.create_cq(kDepth * 2, nullptr);
    mr = *nic.mrs().add(pd, memory.data(), memory.size(), base, kAllAccess);
    QpInit init;
    init.pd = pd;
    init.send_cq = init.recv_cq = cq;
    init.max_send_wr = init.max_recv_wr = kDepth;
    init.max_send_sge = init.max_recv_sge = 1;
    for (int i = 0; i < qp_count; ++i) qps.push_back(*nic.create_qp(init));
  }

  Gid address;
  std::vector<std::uint8_t> memory;
  std::unique_ptr<ibv::FlightRecorder> recorder;
  Nic nic;
  Pd* pd;
  Cq* cq = nullptr;
  Mr* mr = nullptr;
  std::vector<Qp*> qps;
};

class Wire {
 public:
  explicit Wire(int qp_count, bool recorded = false)
      : a(Gid::from_v4(10, 0, 0, 1), 0x10000000, qp_count, recorded),
        b(Gid::from_v4(10, 0, 0, 2), 0x20000000, qp_count, recorded) {
    for (std::size_t i = 0; i < a.qps.size(); ++i) {
      connect(a, a.qps[i], b, b.qps[i]->qpn());
      connect(b, b.qps[i], a, a.qps[i]->qpn());
    }
  }

  void post(std::size_t qp, SendOp op, std::uint32_t length) {
    if (op == SendOp::kSend) {
      const Sge sge{b.mr->iova, length, b.mr->key};
      UROCE_ASSERT(b.nic.post_recv(b.qps[qp], {0, {&sge, 1}}) == 0);
    }
    const Sge sge{a.mr->iova, length, a.mr->key};
    SendWr wr;
    wr.op = op;
    wr.flags = kSignaled;
    wr.remote_addr = b.mr->iova;
    wr.rkey = b.mr->key;
    wr.sges = {&sge, 1};
    UROCE_ASSERT(a.nic.post_send(a.qps[qp], wr) == 0);
  }
  /// Moves packets until neither side has any; returns how many. Virtual time goes by at 1 us a packet.
  std::uint64_t run() {
    std::uint64_t packets = 0;
    for (std::uint64_t moved = 1; moved != 0; packets += moved) moved = move(a, b) + move(b, a);
    std::array<Completion, kDepth * 2> completions;
    UROCE_ASSERT(a.cq->poll(completions) != 0);
    b.cq->poll(completions);
    return packets;
  }

  Station a, b;

 private:
  static void connect(Station& local, Qp* qp, const Station& remote, std::uint32_t remote_qpn) {
    QpAttr attr;
    attr.access = kAllAccess;
    attr.path.source = local.address;
    attr.path.destination = remote.address;
    attr.path_mtu = 5;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
    attr.dest_qpn = remote_qpn;
    attr.state = QpState::kInit;
    UROCE_ASSERT(local.nic.modify_qp(qp, attr, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccess) == 0);
    attr.state = QpState::kRtr;
    UROCE_ASSERT(local.nic.modify_qp(qp, attr,
                                     kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn |
                                         kAttrMaxDestRdAtomic | kAttrMinRnrTimer) == 0);
    attr.state = QpState::kRts;
    UROCE_ASSERT(
        local.nic.modify_qp(
            qp, attr, kAttrState | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxRdAtomic) == 0);
  }
  std::uint64_t move(Station& from, Station& to) {
    if (from.recorder == nullptr) return move(from, from.nic, to.nic);
    ibv::Recorded sender(from.nic, *from.recorder), receiver(to.nic, *to.recorder);
    return move(from, sender, receiver);
  }
  template <class N>
  std::uint64_t move(Station& from, N& sender, N& receiver) {
    std::uint64_t moved = 0;
    while (const auto packet = sender.poll_transmit(now_, frame_)) {
      now_ += 1us;
      receiver.on_datagram({packet->path, Bytes(frame_).first(packet->size)}, now_);
      ++moved;
      if (const auto deadline = from.nic.next_deadline(); deadline && *deadline <= now_) from.nic.on_timeout(now_);
    }
    return moved;
  }

  std::array<std::uint8_t, proto::kMaxPacketSize> frame_;
  Instant now_{1h};
};

/// Arguments: bytes a message, QPs. The QPs take turns, one message each. `recorded`: with flight recorders, as every
/// NIC of a program has one.
void transfer(benchmark::State& state, SendOp op, bool recorded = false) {
  const auto length = static_cast<std::uint32_t>(state.range(0));
  Wire wire(static_cast<int>(state.range(1)), recorded);
  std::uint64_t packets = 0;
  std::size_t qp = 0;
  for (auto _ : state) {
    for (std::uint32_t i = 0; i < kDepth; ++i) {
      wire.post(qp, op, length);
      qp = (qp + 1) % wire.a.qps.size();
    }
    packets += wire.run();
  }
  const auto messages = static_cast<double>(state.iterations() * kDepth);
  state.SetBytesProcessed(static_cast<std::int64_t>(messages) * length);
  state.counters["packets"] = benchmark::Counter(static_cast<double>(packets), benchmark::Counter::kIsRate);
  state.counters["messages"] = benchmark::Counter(messages, benchmark::Counter::kIsRate);
}
// The data packets of 4 KiB at one packet a message; then what ACKs cost less; then many QPs.
BENCHMARK_CAPTURE(transfer, write, SendOp::kWrite)
    ->Args({64, 1})
    ->Args({4096, 1})
    ->Args({65536, 1})
    ->Args({4096, 1000})
    ->Args({4096, 10000});
BENCHMARK_CAPTURE(transfer, send, SendOp::kSend)->Args({64, 1})->Args({4096, 1})->Args({65536, 1});
BENCHMARK_CAPTURE(transfer, read, SendOp::kRead)->Args({64, 1})->Args({4096, 1})->Args({65536, 1});
// What the flight recorder costs: to be compared with the rows above, in one run.
BENCHMARK_CAPTURE(transfer, write_recorded, SendOp::kWrite, true)->Args({64, 1})->Args({4096, 1});

/// One WR into the send queue (WRITE of 64 bytes), by the clock: the packets that follow are not counted.
void post_send(benchmark::State& state) {
  Wire wire(1);
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < kDepth; ++i) wire.post(0, SendOp::kWrite, 64);
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    wire.run();
  }
  state.SetItemsProcessed(state.iterations() * kDepth);
}
BENCHMARK(post_send)->UseManualTime();

/// One completion into a CQ and out of it, in batches of 16.
void poll_cq(benchmark::State& state) {
  Cq cq(64, nullptr);
  std::array<Completion, 16> batch{};
  for (auto _ : state) {
    for (const Completion& completion : batch) benchmark::DoNotOptimize(cq.push(completion));
    benchmark::DoNotOptimize(cq.poll(batch));
  }
  state.SetItemsProcessed(state.iterations() * 16);
}
BENCHMARK(poll_cq);

}  // namespace
}  // namespace uroce::nic
