#include "verbs/ibverbs/verbs_front.h"

#include <string_view>

#include "verbs/ibverbs/call_faults.h"

namespace uroce::ibv::front {
namespace {

constexpr bool returns_minus_one(std::string_view verb) {
  for (const std::string_view one : {"ibv_query_gid", "ibv_query_pkey", "ibv_get_pkey_index", "ibv_get_device_index",
                                     "ibv_get_async_event", "ibv_get_cq_event", "ibv_poll_cq", "ibv_read_sysfs_file",
                                     "ibv_dm_export_dmabuf_fd", "ibv_export_buf_dmabuf_fd"}) {
    if (verb == one) return true;
  }
  return false;
}

template <class Return, class Verb>
Return call(const char* name, Verb verb) {
  if constexpr (can_fail<Return>) {
    if (const int error = call_fault(name)) return failed_call<Return>(error, returns_minus_one(name));
  }
  return verb();
}

}  // namespace

#define UROCE_VERB(ret, name, params, args, version)          \
  ret name params {                                           \
    return call<ret>(#name, [&] { return impl::name args; }); \
  }
#include "verbs/ibverbs/functions.def"
#include "verbs/ibverbs/functions_extra.def"
#include "verbs/ibverbs/functions_newer.def"
#undef UROCE_VERB

int query_port(struct ibv_context* context, std::uint8_t port_num, struct ibv_port_attr* attr, std::size_t attr_size) {
  return call<int>("ibv_query_port", [&] { return impl::query_port(context, port_num, attr, attr_size); });
}

int poll_cq(struct ibv_cq* cq, int num_entries, struct ibv_wc* wc) {
  return call<int>("ibv_poll_cq", [&] { return impl::poll_cq(cq, num_entries, wc); });
}

int req_notify_cq(struct ibv_cq* cq, int solicited_only) {
  return call<int>("ibv_req_notify_cq", [&] { return impl::req_notify_cq(cq, solicited_only); });
}

int post_send(struct ibv_qp* qp, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr) {
  if (const int error = call_fault("ibv_post_send")) {
    *bad_wr = wr;
    return error;
  }
  return impl::post_send(qp, wr, bad_wr);
}

int post_recv(struct ibv_qp* qp, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) {
  if (const int error = call_fault("ibv_post_recv")) {
    *bad_wr = wr;
    return error;
  }
  return impl::post_recv(qp, wr, bad_wr);
}

struct ibv_cq_ex* create_cq_ex(struct ibv_context* context, struct ibv_cq_init_attr_ex* init) {
  return call<struct ibv_cq_ex*>("ibv_create_cq_ex", [&] { return impl::create_cq_ex(context, init); });
}

int start_poll(struct ibv_cq_ex* cq, struct ibv_poll_cq_attr* attr) {
  return call<int>("ibv_start_poll", [&] { return impl::start_poll(cq, attr); });
}

int next_poll(struct ibv_cq_ex* cq) {
  return call<int>("ibv_next_poll", [&] { return impl::next_poll(cq); });
}

int modify_cq(struct ibv_cq* cq, struct ibv_modify_cq_attr* attr) {
  return call<int>("ibv_modify_cq", [&] { return impl::modify_cq(cq, attr); });
}

struct ibv_qp* create_qp_ex(struct ibv_context* context, struct ibv_qp_init_attr_ex* init) {
  return call<struct ibv_qp*>("ibv_create_qp_ex", [&] { return impl::create_qp_ex(context, init); });
}

int wr_complete(struct ibv_qp_ex* qp) {
  if (const int error = call_fault("ibv_wr_complete")) {
    qp->wr_abort(qp);  // The list has ended, whatever became of it.
    return error;
  }
  return impl::wr_complete(qp);
}

struct ibv_mw* alloc_mw(struct ibv_pd* pd, enum ibv_mw_type type) {
  return call<struct ibv_mw*>("ibv_alloc_mw", [&] { return impl::alloc_mw(pd, type); });
}

int dealloc_mw(struct ibv_mw* mw) {
  return call<int>("ibv_dealloc_mw", [&] { return impl::dealloc_mw(mw); });
}

int bind_mw(struct ibv_qp* qp, struct ibv_mw* mw, struct ibv_mw_bind* bind) {
  return call<int>("ibv_bind_mw", [&] { return impl::bind_mw(qp, mw, bind); });
}

int post_srq_recv(struct ibv_srq* srq, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) {
  if (const int error = call_fault("ibv_post_srq_recv")) {
    *bad_wr = wr;
    return error;
  }
  return impl::post_srq_recv(srq, wr, bad_wr);
}

int query_device_ex(struct ibv_context* context, const struct ibv_query_device_ex_input* input,
                    struct ibv_device_attr_ex* attr, std::size_t attr_size) {
  return call<int>("ibv_query_device_ex", [&] { return impl::query_device_ex(context, input, attr, attr_size); });
}

int query_rt_values(struct ibv_context* context, struct ibv_values_ex* values) {
  return call<int>("ibv_query_rt_values_ex", [&] { return impl::query_rt_values(context, values); });
}

struct ibv_td* alloc_td(struct ibv_context* context, struct ibv_td_init_attr* init) {
  return call<struct ibv_td*>("ibv_alloc_td", [&] { return impl::alloc_td(context, init); });
}

int dealloc_td(struct ibv_td* td) {
  return call<int>("ibv_dealloc_td", [&] { return impl::dealloc_td(td); });
}

struct ibv_pd* alloc_parent_domain(struct ibv_context* context, struct ibv_parent_domain_init_attr* init) {
  return call<struct ibv_pd*>("ibv_alloc_parent_domain", [&] { return impl::alloc_parent_domain(context, init); });
}

struct ibv_mr* alloc_null_mr(struct ibv_pd* pd) {
  return call<struct ibv_mr*>("ibv_alloc_null_mr", [&] { return impl::alloc_null_mr(pd); });
}

int advise_mr(struct ibv_pd* pd, enum ibv_advise_mr_advice advice, std::uint32_t flags, struct ibv_sge* list,
              std::uint32_t count) {
  return call<int>("ibv_advise_mr", [&] { return impl::advise_mr(pd, advice, flags, list, count); });
}

struct ibv_srq* create_srq_ex(struct ibv_context* context, struct ibv_srq_init_attr_ex* init) {
  return call<struct ibv_srq*>("ibv_create_srq_ex", [&] { return impl::create_srq_ex(context, init); });
}

int get_srq_num(struct ibv_srq* srq, std::uint32_t* number) {
  return call<int>("ibv_get_srq_num", [&] { return impl::get_srq_num(srq, number); });
}

}  // namespace uroce::ibv::front
