// Our verbs as programs reach them: impl.h's, with the failures in front that were asked for (call_faults.h).
#pragma once

#include "verbs/ibverbs/impl.h"

namespace uroce::ibv::front {

#define UROCE_VERB(ret, name, params, args, version) ret name params;
#include "verbs/ibverbs/functions.def"
#include "verbs/ibverbs/functions_extra.def"
#include "verbs/ibverbs/functions_newer.def"
#undef UROCE_VERB

int query_port(struct ibv_context* context, uint8_t port_num, struct ibv_port_attr* attr, size_t attr_size);
int poll_cq(struct ibv_cq* cq, int num_entries, struct ibv_wc* wc);
int req_notify_cq(struct ibv_cq* cq, int solicited_only);
int post_send(struct ibv_qp* qp, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr);
int post_recv(struct ibv_qp* qp, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr);
struct ibv_cq_ex* create_cq_ex(struct ibv_context* context, struct ibv_cq_init_attr_ex* init);
int start_poll(struct ibv_cq_ex* cq, struct ibv_poll_cq_attr* attr);
int next_poll(struct ibv_cq_ex* cq);
int modify_cq(struct ibv_cq* cq, struct ibv_modify_cq_attr* attr);
struct ibv_qp* create_qp_ex(struct ibv_context* context, struct ibv_qp_init_attr_ex* init);
int wr_complete(struct ibv_qp_ex* qp);
struct ibv_srq* create_srq_ex(struct ibv_context* context, struct ibv_srq_init_attr_ex* init);
int get_srq_num(struct ibv_srq* srq, uint32_t* number);
struct ibv_mw* alloc_mw(struct ibv_pd* pd, enum ibv_mw_type type);
int dealloc_mw(struct ibv_mw* mw);
int bind_mw(struct ibv_qp* qp, struct ibv_mw* mw, struct ibv_mw_bind* bind);
int post_srq_recv(struct ibv_srq* srq, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr);
int query_device_ex(struct ibv_context* context, const struct ibv_query_device_ex_input* input,
                    struct ibv_device_attr_ex* attr, size_t attr_size);
int query_rt_values(struct ibv_context* context, struct ibv_values_ex* values);
struct ibv_td* alloc_td(struct ibv_context* context, struct ibv_td_init_attr* init);
int dealloc_td(struct ibv_td* td);
struct ibv_pd* alloc_parent_domain(struct ibv_context* context, struct ibv_parent_domain_init_attr* init);
struct ibv_mr* alloc_null_mr(struct ibv_pd* pd);
int advise_mr(struct ibv_pd* pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge* list, uint32_t count);

}  // namespace uroce::ibv::front
