// SPDX-License-Identifier: Apache-2.0
// What a verbs user holds: the public structures of <infiniband/verbs.h> with our part behind them. Every pointer a
// user passes in was made by us, so that own() can lead back.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "verbs/ibverbs/host/adapter.h"
#include "verbs/ibverbs/host/device.h"
#include "verbs/ibverbs/objects/event_queue.h"
#include "verbs/ibverbs/objects/send_builder.h"
#include "verbs/nic/device/nic.h"

namespace uroce::ibv {

struct CompletionQueue;
struct QueuePair;
struct SharedReceiveQueue;

/// An asynchronous event of a CQ, a QP or an SRQ (one of them is set), or of the port or device (none is).
struct AsyncEvent {
  enum ibv_event_type type = IBV_EVENT_DEVICE_FATAL;
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
  SharedReceiveQueue* srq = nullptr;
};

/// A promise of the program that one thread at a time uses what is made under it.
struct ThreadDomain : ibv_td {
  std::uint32_t parents = 0;  ///< Parent domains that it is in. Guarded by the context's objects_mutex.
};

struct ProtectionDomain : ibv_pd {
  nic::Pd* nic_pd = nullptr;
  bool is_parent = false;      ///< A parent domain: `nic_pd` is that of the protection domain it was made from.
  ThreadDomain* td = nullptr;  ///< A parent domain's.
};

struct MemoryRegion : ibv_mr {
  nic::Mr* nic_mr = nullptr;
};

struct MemoryWindow : ibv_mw {
  nic::Mw* nic_mw = nullptr;
};

struct CompChannel : ibv_comp_channel {
  CompChannel() : ibv_comp_channel{} {}

  EventQueue<CompletionQueue*> events{ibv_comp_channel::fd};
  std::atomic<bool> said_again = false;  ///< The last ibv_get_cq_event() found none, and did not wait.
};

/// One thread at a time between ibv_start_poll() and ibv_end_poll().
class PollGate {
 public:
  bool open_for_all = false;  ///< The program promised to have one thread only.
  void enter() {
    while (!open_for_all && busy_.test_and_set(std::memory_order_acquire)) busy_.wait(true, std::memory_order_relaxed);
  }
  void leave() {
    if (open_for_all) return;
    busy_.clear(std::memory_order_release);
    busy_.notify_one();
  }

 private:
  std::atomic_flag busy_;
};

/// Always the extended structure, which begins like ibv_cq: ibv_cq_ex_to_cq() is a cast.
struct CompletionQueue : ibv_cq_ex {
  nic::Cq* nic_cq = nullptr;
  bool armed_since_poll = false;  ///< Under the NIC's lock.
  PollGate poll_gate;
  nic::Completion current;  ///< What ibv_wc_read_opcode() and its sisters read. Guarded by the gate.
  /// What the wall clock is ahead of the NIC's, as of the last time that it changed. Guarded by the gate.
  std::chrono::nanoseconds wall_offset{};
  // Events given to the user so far. Destruction waits until as many are acknowledged.
  std::uint32_t comp_events_delivered = 0;   // Under the lock of the channel's queue.
  std::uint32_t async_events_delivered = 0;  // Under the lock of the context's queue.
};

/// Raises an event on its channel, if it has one.
void notify(CompletionQueue& cq);

struct SharedReceiveQueue : ibv_srq {
  nic::Srq* nic_srq = nullptr;
  std::uint32_t async_events_delivered = 0;  // Under the lock of the context's queue.
};

/// A source port that the NIC's port holds open for a QP.
struct HeldSourcePort {
  proto::Gid local;
  std::uint16_t port = 0;
};

/// Always the extended structure, which begins with the ibv_qp.
struct QueuePair : ibv_qp_ex {
  /// Behind the newest member of our <infiniband/verbs.h>, as rdma-core 65 has it.
  void (*wr_flush)(struct ibv_qp_ex*, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length,
                   std::uint8_t type, std::uint8_t level) = nullptr;
  void* later_members[4] = {};  ///< For still newer ones: null.
  nic::Qp* nic_qp = nullptr;
  struct ibv_qp_cap cap {};
  bool sq_sig_all = false;
  bool was_reset = false;                ///< There may still be packets of its life before.
  std::unique_ptr<SendBuilder> builder;  ///< For QPs that were created with send_ops_flags.
  struct ibv_qp_attr set {};             ///< What modify has set since RESET, for query.
  std::optional<HeldSourcePort> source_port;
  std::uint32_t async_events_delivered = 0;  // Under the lock of the context's queue.
};

/// Lives in the PD's user count as well: a PD with address handles can't be deallocated.
struct AddressHandle : ibv_ah {
  proto::Path path;
  nic::Pd* nic_pd = nullptr;
  std::optional<HeldSourcePort> source_port;
};

/// As the NIC's lock: verbs of a signal handler that has interrupted who has it are refused.
using ListsMutex = engine::TurnMutex;

struct Context : verbs_context {
  Context(Device& device, std::shared_ptr<Adapter> adapter);
  ~Context();
  /// Takes what the user left behind from the NIC, as the kernel does, and gives back the NIC.
  std::shared_ptr<Adapter> close();

  Device& owner;
  std::shared_ptr<Adapter> adapter;  ///< Null when the context is closed (leftovers.h).
  EventQueue<AsyncEvent> async_events{verbs_context::context.async_fd};

  // What lives in this context. `mutex` of ibv_context is the user's business.
  ListsMutex objects_mutex;
  MutexHeldAcrossFork<ListsMutex> held_across_fork;
  std::unordered_set<ThreadDomain*> tds;
  std::unordered_set<ProtectionDomain*> pds;
  std::unordered_set<MemoryRegion*> mrs;
  std::unordered_set<MemoryWindow*> mws;
  std::unordered_set<CompChannel*> channels;
  std::unordered_set<CompletionQueue*> cqs;
  std::unordered_set<SharedReceiveQueue*> srqs;
  std::unordered_set<QueuePair*> qps;
  std::unordered_set<AddressHandle*> ahs;
};

/// From what the user holds to what we made.
inline ThreadDomain* own(struct ibv_td* td) { return static_cast<ThreadDomain*>(td); }
inline ProtectionDomain* own(struct ibv_pd* pd) { return static_cast<ProtectionDomain*>(pd); }
inline MemoryRegion* own(struct ibv_mr* mr) { return static_cast<MemoryRegion*>(mr); }
inline MemoryWindow* own(struct ibv_mw* mw) { return static_cast<MemoryWindow*>(mw); }
inline CompChannel* own(struct ibv_comp_channel* channel) { return static_cast<CompChannel*>(channel); }
inline CompletionQueue* own(struct ibv_cq_ex* cq) { return static_cast<CompletionQueue*>(cq); }
inline CompletionQueue* own(struct ibv_cq* cq) { return own(reinterpret_cast<struct ibv_cq_ex*>(cq)); }
inline SharedReceiveQueue* own(struct ibv_srq* srq) { return static_cast<SharedReceiveQueue*>(srq); }
inline AddressHandle* own(struct ibv_ah* ah) { return static_cast<AddressHandle*>(ah); }
inline QueuePair* own(struct ibv_qp_ex* qp) { return static_cast<QueuePair*>(qp); }
inline QueuePair* own(struct ibv_qp* qp) { return own(reinterpret_cast<struct ibv_qp_ex*>(qp)); }

inline Context& context_of(struct ibv_context* context) { return *static_cast<Context*>(verbs_get_ctx(context)); }
inline Adapter& adapter_of(const QueuePair& qp) { return *context_of(qp.qp_base.context).adapter; }

/// After these the NIC knows the object no more, and raises no event for it.
void take_from_nic(QueuePair& qp);
void take_from_nic(AddressHandle& ah);

/// Initialises and destroys the lock and the condition variable that ibv_cq, ibv_srq and ibv_qp have for
/// acknowledgements.
template <class Object>
void init_ack(Object& object) {
  pthread_mutex_init(&object.mutex, nullptr);
  pthread_cond_init(&object.cond, nullptr);
}
template <class Object>
void destroy_ack(Object& object) {
  pthread_cond_destroy(&object.cond);
  pthread_mutex_destroy(&object.mutex);
}
/// Counts acknowledged events, and wakes threads that wait for them.
template <class Object>
void acknowledge(Object& object, std::uint32_t Object::*completed, std::uint32_t n) {
  pthread_mutex_lock(&object.mutex);
  object.*completed += n;
  pthread_cond_broadcast(&object.cond);
  pthread_mutex_unlock(&object.mutex);
}
/// Waits for the acknowledgements of all events of `object` that were delivered. In a child of fork() they
/// would not come: a thread of the parent got the events.
template <class Object>
void await_acknowledged(const Context& context, Object& object, std::uint32_t Object::*completed,
                        std::uint32_t delivered) {
  if (context.async_events.is_inherited()) return;
  pthread_mutex_lock(&object.mutex);
  while (object.*completed != delivered) pthread_cond_wait(&object.cond, &object.mutex);
  pthread_mutex_unlock(&object.mutex);
}

}  // namespace uroce::ibv
