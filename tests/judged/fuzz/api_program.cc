// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/fuzz/api_program.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/judged/fuzz/fake_engine.h"
#include "verbs/ibverbs/host/facts.h"

namespace uroce::fuzz {
namespace {

constexpr int kDevices = 2;
constexpr std::size_t kMemory = 64 * 1024;
constexpr std::size_t kPage = 4096;

// Before the first verb. Loopback addresses: nothing is sent there, but verbs ask the host for routes.
const bool environment_is_set = [] {
  setenv("UROCE_ADDR", "127.99.0.1;127.99.0.2,127.99.0.3", 1);
  setenv("UROCE_BROKER", "off", 1);
  for (const char* name : {"UROCE_DEVICES", "UROCE_PCAP", "UROCE_ENGINE"}) unsetenv(name);
  return true;
}();

/// What the program may register and name in SGEs; beside it pages that it may only read, or not touch at all.
std::uint8_t* memory() {
  static std::uint8_t* const kBytes = static_cast<std::uint8_t*>(std::aligned_alloc(kPage, kMemory));
  return kBytes;
}
void* protected_page(int protection) { return mmap(nullptr, kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

void set_nonblocking(int fd) { UROCE_ASSERT(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0); }

/// A verb that returns a pointer has failed properly, or succeeded although it may.
template <class T>
T* checked(T* object, bool may_succeed, bool must_succeed) {
  UROCE_ASSERT(object == nullptr ? errno > 0 && !must_succeed : may_succeed);
  return object;
}

void empty_channel(ApiObjects& objects, const ApiChannel& channel) {
  struct ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  if (v().ibv_get_cq_event(channel.verbs, &cq, &cookie) != 0) {
    UROCE_ASSERT(errno == EAGAIN);
    return;
  }
  for (const auto& own : objects.cqs) {
    if (own->verbs != cq) continue;
    UROCE_ASSERT(cookie == own.get() && own->channel == &channel);
    ++own->unacknowledged;
    return;
  }
  UROCE_ASSERT(false && "an event of a CQ that is gone");
}

void acknowledge(ApiCq& cq) {
  v().ibv_ack_cq_events(cq.verbs, cq.unacknowledged);
  cq.unacknowledged = 0;
}

}  // namespace

ApiProgram::ApiProgram() { reset_fake_engine(); }

ApiProgram::~ApiProgram() {
  while (ApiContext* context = o_.contexts.at(0)) close_device(context);
}

void ApiProgram::make_pair() {
  for (int device = 0; device < kDevices; ++device) {
    const std::uint8_t index[] = {static_cast<std::uint8_t>(device)};
    call(kOpenDevice, Reader(index));
    call(kAllocPd, Reader(index));
    call(kRegMr, Reader(index));
    call(kCreateCq, Reader(index));
    call(kCreateQp, Reader(index));
  }
  const std::uint8_t both[] = {0, 1};
  call(kConnect, Reader(both));
}

// NOLINTNEXTLINE(readability-function-size): one switch, a case for each call.
void ApiProgram::call(ApiCall which, Reader in) {
  // The object that most calls are about. Those without one to be about do nothing.
  const std::size_t index = which == kOpenDevice ? 0 : in.get<std::uint8_t>();
  const auto on = [index](const auto& table, auto act) {
    if (auto* object = table.at(index)) act(object);
  };
  switch (which) {
    case kOpenDevice:
      return open_device(in);
    case kCloseDevice:
      return on(o_.contexts, [&](ApiContext* context) { close_device(context); });
    case kAllocPd:
      return on(o_.contexts, [&](ApiContext* context) {
        if (!o_.pds.full()) o_.pds.add({checked(v().ibv_alloc_pd(context->verbs), true, true), context});
      });
    case kDeallocPd:
      return on(o_.pds, [&](ApiPd* pd) {
        const int error = v().ibv_dealloc_pd(pd->verbs);
        UROCE_ASSERT(error == (o_.uses(*pd) ? EBUSY : 0));
        if (error == 0) o_.pds.remove(pd);
      });
    case kRegMr:
      return on(o_.pds, [&](ApiPd* pd) { reg_mr(*pd, in); });
    case kReregMr:
      return on(o_.mrs, [&](ApiMr* mr) { rereg_mr(*mr, in); });
    case kDeregMr:
      return on(o_.mrs, [&](ApiMr* mr) {
        UROCE_ASSERT(v().ibv_dereg_mr(mr->verbs) == 0);
        o_.mrs.remove(mr);
      });
    case kCreateChannel:
      return on(o_.contexts, [&](ApiContext* context) {
        if (o_.channels.full()) return;
        struct ibv_comp_channel* made = checked(v().ibv_create_comp_channel(context->verbs), true, true);
        set_nonblocking(made->fd);
        o_.channels.add({made, context});
      });
    case kDestroyChannel:
      return on(o_.channels, [&](ApiChannel* channel) {
        const int error = v().ibv_destroy_comp_channel(channel->verbs);
        UROCE_ASSERT(error == (o_.uses(*channel) ? EBUSY : 0));
        if (error == 0) o_.channels.remove(channel);
      });
    case kCreateCq:
      return on(o_.contexts, [&](ApiContext* context) { create_cq(*context, in); });
    case kResizeCq:
      return on(o_.cqs, [&](ApiCq* cq) { resize_cq(*cq, in.get<std::uint16_t>()); });
    case kDestroyCq:
      return on(o_.cqs, [&](ApiCq* cq) { destroy_cq(cq); });
    case kReqNotify:
      return on(o_.cqs, [&](ApiCq* cq) { UROCE_ASSERT(ibv_req_notify_cq(cq->verbs, in.get<std::uint8_t>()) == 0); });
    case kGetCqEvent:
      return on(o_.channels, [&](ApiChannel* channel) {
        empty_channel(o_, *channel);
        if (in.get<std::uint8_t>() % 2 == 0) return;
        for (const auto& cq : o_.cqs) acknowledge(*cq);
      });
    case kCreateQp:
      return on(o_.pds, [&](ApiPd* pd) { create_qp(*pd, in); });
    case kDestroyQp:
      return on(o_.qps, [&](ApiQp* qp) { destroy_qp(qp); });
    case kModifyQp:
      return on(o_.qps, [&](ApiQp* qp) { modify_qp(*qp, in); });
    case kStepQp:
      return on(o_.qps, [&](ApiQp* qp) {
        const auto to = static_cast<enum ibv_qp_state>(in.get<std::uint8_t>() % (IBV_QPS_ERR + 1));
        step_qp(*qp, to, *o_.qps.at(in.get<std::uint8_t>()));
      });
    case kConnect:
      return on(o_.qps, [&](ApiQp* qp) {
        ApiQp* const peer = o_.qps.at(in.get<std::uint8_t>());
        connect(*qp, *peer);
        if (peer != qp) connect(*peer, *qp);
      });
    case kQueryQp:
      return on(o_.qps, [&](ApiQp* qp) { ask_state(*qp); });
    case kPostSends:
      return on(o_.qps, [&](ApiQp* qp) { post_sends(*qp, in); });
    case kPostRecvs:
      return on(o_.qps, [&](ApiQp* qp) { post_recvs(*qp, in); });
    case kPollCq:
      return on(o_.cqs, [&](ApiCq* cq) { poll_cq(*cq, in.get<std::int8_t>()); });
    case kAdvance:
      return advance_time(std::chrono::microseconds(1u << index % 26));
    case kLose:
      return lose_packets(static_cast<std::uint32_t>(index));
    case kGetAsyncEvent:
      return on(o_.contexts, [&](ApiContext* context) { get_async_event(*context); });
    default:
      return on(o_.contexts, [&](ApiContext* context) { query(*context, in); });
  }
}

void ApiProgram::open_device(Reader& in) {
  if (o_.contexts.full()) return;
  int count = 0;
  struct ibv_device** list = v().ibv_get_device_list(&count);
  UROCE_ASSERT(list != nullptr && count == kDevices);
  const int device = in.get<std::uint8_t>() % kDevices;
  struct ibv_context* context = checked(v().ibv_open_device(list[device]), true, true);
  v().ibv_free_device_list(list);
  set_nonblocking(context->async_fd);
  o_.contexts.add({context, device});
}

/// What the program still holds is destroyed afterwards, as by a garbage collector: in the worst order. Kept, it would
/// fill the process with descriptors.
void ApiProgram::close_device(ApiContext* context) {
  for (const auto& cq : o_.cqs) {
    if (cq->context == context) acknowledge(*cq);
  }
  UROCE_ASSERT(v().ibv_close_device(context->verbs) == 0);
  const auto of_pd = [&](const auto& object) { return object.pd->context == context; };
  const auto of_context = [&](const auto& object) { return object.context == context; };
  const auto destroy = [](const auto& table, auto belongs, auto verb) {
    for (const auto& object : table) {
      if (belongs(*object)) UROCE_ASSERT(verb(object->verbs) == 0);
    }
  };
  destroy(o_.pds, of_context, v().ibv_dealloc_pd);
  destroy(o_.channels, of_context, v().ibv_destroy_comp_channel);
  destroy(o_.cqs, of_context, v().ibv_destroy_cq);
  destroy(o_.mrs, of_pd, v().ibv_dereg_mr);
  destroy(o_.qps, of_pd, v().ibv_destroy_qp);
  o_.qps.remove_if(of_pd);
  o_.mrs.remove_if(of_pd);
  o_.cqs.remove_if(of_context);
  o_.channels.remove_if(of_context);
  o_.pds.remove_if(of_context);
  o_.contexts.remove(context);
}

std::uint64_t ApiProgram::address(std::uint32_t offset) { return reinterpret_cast<std::uintptr_t>(memory()) + offset; }
std::size_t ApiProgram::memory_size() { return kMemory; }

/// Memory to register: usually all of ours. Never memory of somebody else: peers may write to it.
ApiProgram::Range ApiProgram::range(Reader& in) {
  static void* const kUntouchable = protected_page(PROT_NONE);
  static void* const kReadOnly = protected_page(PROT_READ);
  const std::size_t offset = in.get<std::uint16_t>(), length = in.get<std::uint16_t>();
  switch (in.get<std::uint8_t>() % 8) {
    case 1:
      return {memory(), 0, Range::Kind::kImpossible};
    case 2:
      return {nullptr, length, length == 0 ? Range::Kind::kImpossible : Range::Kind::kAbsent};
    case 3:
      return {memory(), SIZE_MAX - length, Range::Kind::kImpossible};
    case 4:
      return {kUntouchable, kPage, Range::Kind::kAbsent};
    case 5:
      return {kReadOnly, kPage, Range::Kind::kReadOnly};
    case 6: {
      const std::size_t size = std::min(length, kMemory - offset);
      return {memory() + offset, size, size == 0 ? Range::Kind::kImpossible : Range::Kind::kWritable};
    }
    default:
      return {memory(), kMemory, Range::Kind::kWritable};
  }
}

bool ApiProgram::may_register(const Range& range, unsigned access) {
  if (range.kind == Range::Kind::kImpossible) return false;
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) return true;
  if (range.kind == Range::Kind::kAbsent) return false;
  return range.kind == Range::Kind::kWritable || (access & IBV_ACCESS_LOCAL_WRITE) == 0;
}

void ApiProgram::reg_mr(ApiPd& pd, Reader& in) {
  if (o_.mrs.full()) return;
  constexpr unsigned kAll =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  const Range r = range(in);
  const unsigned access = in.get<std::uint32_t>() ^ kAll;
  const auto iova_page = in.get<std::uint64_t>();
  const std::uint64_t addr = reinterpret_cast<std::uintptr_t>(r.addr);
  const bool must = may_register(r, access) && access == kAll;
  struct ibv_mr* mr = nullptr;
  switch (in.get<std::uint8_t>() % 3) {
    case 0:
      mr = v().ibv_reg_mr(pd.verbs, r.addr, r.length, static_cast<int>(access));
      break;
    case 1:
      mr = v().ibv_reg_mr_iova(pd.verbs, r.addr, r.length, addr + iova_page * kPage, static_cast<int>(access));
      return finish_reg(pd, mr, may_register(r, access), false);
    default:
      mr = v().ibv_reg_mr_iova2(pd.verbs, r.addr, r.length, iova_page, access);
      return finish_reg(pd, mr, may_register(r, access), false);
  }
  finish_reg(pd, mr, may_register(r, access), must);
}

void ApiProgram::finish_reg(ApiPd& pd, struct ibv_mr* mr, bool may, bool must) {
  if (checked(mr, may, must) == nullptr) return;
  UROCE_ASSERT(mr->pd == pd.verbs && mr->lkey == mr->rkey);
  o_.mrs.add({mr, &pd});
}

void ApiProgram::rereg_mr(ApiMr& mr, Reader& in) {
  const int flags = in.get<std::uint8_t>() & 0xF;
  ApiPd* const pd = o_.pds.at(in.get<std::uint8_t>());
  const Range r = range(in);
  const auto access = in.get<std::uint32_t>();
  const struct ibv_mr before = *mr.verbs;
  if (v().ibv_rereg_mr(mr.verbs, flags, pd->verbs, r.addr, r.length, static_cast<int>(access)) != 0) {
    UROCE_ASSERT(mr.verbs->lkey == before.lkey && mr.verbs->addr == before.addr && mr.verbs->pd == before.pd);
    return;
  }
  UROCE_ASSERT((mr.verbs->lkey == before.lkey) == (flags == IBV_REREG_MR_CHANGE_ACCESS));
  UROCE_ASSERT((flags & IBV_REREG_MR_CHANGE_TRANSLATION) == 0 || r.kind < Range::Kind::kAbsent);
  if (flags & IBV_REREG_MR_CHANGE_PD) mr.pd = pd;
}

void ApiProgram::create_cq(ApiContext& context, Reader& in) {
  if (o_.cqs.full()) return;
  constexpr int kUsual = 64;
  const int cqe = kUsual - in.get<std::int16_t>() % 600;
  const auto channel_index = in.get<std::uint8_t>();
  ApiChannel* const channel = channel_index == 0 ? nullptr : o_.channels.at(channel_index);
  const int vector = in.get<std::int8_t>();
  const bool is_legal = cqe >= 1 && vector == 0 && (channel == nullptr || channel->context == &context);
  ApiCq* const own = o_.cqs.add({nullptr, &context, channel});
  own->verbs =
      checked(v().ibv_create_cq(context.verbs, cqe, own, channel != nullptr ? channel->verbs : nullptr, vector),
              is_legal, is_legal);
  if (own->verbs == nullptr) return o_.cqs.remove(own);
  UROCE_ASSERT(own->verbs->cqe >= cqe && own->verbs->cq_context == own);
}

void ApiProgram::resize_cq(ApiCq& cq, int cqe) {
  const int before = cq.verbs->cqe;
  const int error = v().ibv_resize_cq(cq.verbs, cqe % 1024);
  UROCE_ASSERT(error == EINVAL ? cq.verbs->cqe == before : error == 0 && cq.verbs->cqe >= cqe % 1024);
  look_for_overflow();
}

void ApiProgram::destroy_cq(ApiCq* cq) {
  acknowledge(*cq);
  const int error = v().ibv_destroy_cq(cq->verbs);
  UROCE_ASSERT(error == (o_.uses(*cq) ? EBUSY : 0));
  if (error == 0) o_.cqs.remove(cq);
}

void ApiProgram::query(ApiContext& context, Reader& in) {
  const auto port = in.get<std::uint8_t>();
  const int number = in.get<std::int16_t>();
  struct ibv_device_attr device {};
  UROCE_ASSERT(v().ibv_query_device(context.verbs, &device) == 0);
  struct ibv_port_attr attr {};
  const int port_error = verbs_get_ctx(context.verbs)->query_port(context.verbs, port, &attr, sizeof attr);
  UROCE_ASSERT(port_error == (port == 1 ? 0 : EINVAL));
  union ibv_gid gid {};
  const bool has_gid = v().ibv_query_gid(context.verbs, port, number, &gid) == 0;
  UROCE_ASSERT(has_gid == (port == 1 && number >= 0 && number < attr.gid_tbl_len));
  __be16 pkey = 0;
  UROCE_ASSERT((v().ibv_query_pkey(context.verbs, port, number, &pkey) == 0) == (port == 1 && number == 0));
  v().ibv_get_pkey_index(context.verbs, port, static_cast<__be16>(number));
  // Also without a name, as far as the enumerations have room.
  UROCE_ASSERT(v().ibv_wc_status_str(static_cast<enum ibv_wc_status>(number & 31)) != nullptr);
  UROCE_ASSERT(v().ibv_event_type_str(static_cast<enum ibv_event_type>(number & 15)) != nullptr);
  UROCE_ASSERT(v().ibv_port_state_str(static_cast<enum ibv_port_state>(number & 7)) != nullptr);
  UROCE_ASSERT(v().ibv_node_type_str(static_cast<enum ibv_node_type>(number & 7)) != nullptr);
  UROCE_ASSERT(ibv::nic_facts(context.verbs).has_value());
}

}  // namespace uroce::fuzz
