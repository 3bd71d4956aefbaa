// SPDX-License-Identifier: Apache-2.0
// Faults of the NIC and of verbs on request, as a program sees them.
#include <cerrno>
#include <cstdlib>

#include "tests/support/in_child.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/verbs_front.h"
#include "verbs/ibverbs/host/device.h"
#include "verbs/ibverbs/host/environment.h"

namespace uroce::ibv::test {
namespace {

/// Calls are counted per process, from its first verb on: these are verbs that the other tests here do not use.
constexpr const char* kCalls =
    "call=ibv_rereg_mr#1:ENOMEM,call=ibv_create_comp_channel#2:EMFILE,call=ibv_query_pkey#1..2:EIO,"
    "call=ibv_req_notify_cq#1:EBUSY,call=ibv_query_port#101:EIO,"
    "call=ibv_create_cq_ex#1:ENOMEM,call=ibv_start_poll#1:EIO,call=ibv_modify_cq#1:EBUSY,call=ibv_create_qp_ex#1:"
    "ENOMEM,"
    "call=ibv_wr_complete#1:ENOMEM,call=ibv_query_device_ex#1:EIO,call=ibv_query_rt_values_ex#1:EIO,"
    "call=ibv_alloc_td#1:ENOMEM,call=ibv_dealloc_td#1:EBUSY,call=ibv_alloc_parent_domain#1:ENOMEM,"
    "call=ibv_alloc_null_mr#1:ENOMEM,call=ibv_advise_mr#1:EFAULT,call=ibv_alloc_buf#1:ENOMEM,call=ibv_create_srq_ex#1:"
    "ENOMEM";

/// Times in `faults` count from the opening of the device: a second is enough for what a test does before.
void ask_for(const std::string& faults) {
  const std::string all = std::string(kCalls) + (faults.empty() ? "" : "," + faults);
  ASSERT_EQ(::setenv("UROCE_FAULTS", all.c_str(), 1), 0);
}
[[maybe_unused]] const bool kBeforeTheFirstVerb = [] {
  ask_for("");
  return true;
}();

TEST(InjectedFaults, TheNthCallFailsAndTouchesNothing) {
  ask_for("");
  Node node(0);
  EXPECT_EQ(v().ibv_rereg_mr(node.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), ENOMEM);
  EXPECT_NE(last_error().find("on request"), std::string::npos);
  EXPECT_EQ(v().ibv_rereg_mr(node.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);

  struct ibv_comp_channel* const first = v().ibv_create_comp_channel(node.context.get());
  ASSERT_NE(first, nullptr);
  errno = 0;
  EXPECT_EQ(v().ibv_create_comp_channel(node.context.get()), nullptr);
  EXPECT_EQ(errno, EMFILE);
  EXPECT_EQ(v().ibv_destroy_comp_channel(first), 0);

  __be16 pkey = 0;
  for (int i = 0; i < 2; ++i) {
    errno = 0;
    EXPECT_EQ(v().ibv_query_pkey(node.context.get(), 1, 0, &pkey), -1);
    EXPECT_EQ(errno, EIO);
  }
  EXPECT_EQ(v().ibv_query_pkey(node.context.get(), 1, 0, &pkey), 0);

  // The way of programs through the context, and the function itself, are one verb.
  struct ibv_port_attr attr {};
  struct ibv_context* const context = node.context.get();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(verbs_get_ctx(context)->query_port(context, 1, &attr, sizeof attr), 0);
  }
  EXPECT_EQ(v().ibv_query_port(context, 1, reinterpret_cast<struct _compat_ibv_port_attr*>(&attr)), EIO);
  EXPECT_EQ(verbs_get_ctx(context)->query_port(context, 1, &attr, sizeof attr), 0);

  EXPECT_EQ(ibv_req_notify_cq(node.send_cq, 0), EBUSY);
  EXPECT_EQ(ibv_req_notify_cq(node.send_cq, 0), 0);
  EXPECT_EQ(nic_facts(context)->faults.calls, 6u);
}

TEST(InjectedFaults, ExtendedVerbsFailOnceAndThenDoWhatTheyShould) {
  ask_for("");
  Node node(0);
  struct ibv_context* const context = node.context.get();
  const struct verbs_context& slots = *verbs_get_ctx(context);
  const auto fails_with = [](int error, void* returned) {
    EXPECT_EQ(returned, nullptr);
    EXPECT_EQ(errno, error);
  };
  struct ibv_cq_init_attr_ex cq_attr {};
  cq_attr.cqe = 4;
  fails_with(ENOMEM, ibv_create_cq_ex(context, &cq_attr));
  struct ibv_cq_ex* const cq = ibv_create_cq_ex(context, &cq_attr);
  ASSERT_NE(cq, nullptr);
  struct ibv_poll_cq_attr poll {};
  EXPECT_EQ(ibv_start_poll(cq, &poll), EIO);
  EXPECT_EQ(ibv_start_poll(cq, &poll), ENOENT);
  struct ibv_modify_cq_attr moderation {};
  moderation.attr_mask = IBV_CQ_ATTR_MODERATE;
  EXPECT_EQ(ibv_modify_cq(ibv_cq_ex_to_cq(cq), &moderation), EBUSY);
  EXPECT_EQ(ibv_modify_cq(ibv_cq_ex_to_cq(cq), &moderation), 0);
  EXPECT_EQ(v().ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);

  struct ibv_qp_init_attr_ex init {};
  init.send_cq = init.recv_cq = node.send_cq;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = node.pd;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  fails_with(ENOMEM, slots.create_qp_ex(context, &init));
  const QpPtr qp(slots.create_qp_ex(context, &init));
  ASSERT_NE(qp, nullptr);
  struct ibv_qp_ex* const builder = impl::ibv_qp_to_qp_ex(qp.get());
  ibv_wr_start(builder);
  EXPECT_EQ(ibv_wr_complete(builder), ENOMEM) << "and the list has ended";
  ibv_wr_start(builder);
  EXPECT_EQ(ibv_wr_complete(builder), 0);

  struct ibv_device_attr_ex device {};
  EXPECT_EQ(slots.query_device_ex(context, nullptr, &device, sizeof device), EIO);
  EXPECT_EQ(slots.query_device_ex(context, nullptr, &device, sizeof device), 0);
  struct ibv_values_ex values {};
  EXPECT_EQ(ibv_query_rt_values_ex(context, &values), EIO);
  EXPECT_EQ(ibv_query_rt_values_ex(context, &values), 0);

  struct ibv_td_init_attr td_init {};
  fails_with(ENOMEM, ibv_alloc_td(context, &td_init));
  struct ibv_td* const td = ibv_alloc_td(context, &td_init);
  ASSERT_NE(td, nullptr);
  struct ibv_parent_domain_init_attr parent_init {};
  parent_init.pd = node.pd;
  fails_with(ENOMEM, ibv_alloc_parent_domain(context, &parent_init));
  struct ibv_pd* const parent = ibv_alloc_parent_domain(context, &parent_init);
  EXPECT_EQ(v().ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  EXPECT_EQ(ibv_dealloc_td(td), 0);

  fails_with(ENOMEM, ibv_alloc_null_mr(node.pd));
  struct ibv_sge sge = node.sge(0, 8);
  EXPECT_EQ(ibv_advise_mr(node.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
  EXPECT_EQ(ibv_advise_mr(node.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
  struct ibv_buf* buf = nullptr;
  fails_with(ENOMEM, front::ibv_alloc_buf(node.pd, 64, &buf));
  struct ibv_srq_init_attr_ex srq_init {};
  fails_with(ENOMEM, slots.create_srq_ex(context, &srq_init));
}

TEST(InjectedFaults, OnlyVerbsThatCanFailAreAcceptedAsCalls) {
  for (const char* verb :
       {"ibv_create_qp", "ibv_query_port", "ibv_post_send", "ibv_get_device_list", "ibv_create_ah", "ibv_reg_mr_ex"}) {
    EXPECT_EQ(check_faults(("call=" + std::string(verb) + "#1:EIO").c_str()), "");
  }
  for (const char* verb :
       {"ibv_creat_qp", "ibv_free_device_list", "ibv_wc_status_str", "ibv_get_device_guid", "ibv_rate_to_mult"}) {
    EXPECT_NE(check_faults(("call=" + std::string(verb) + "#1:EIO").c_str()).find("no such verb, or it can't fail"),
              std::string::npos)
        << verb;
  }
}

TEST(InjectedFaults, StatusesHaveTheNumbersOfTheHeader) {
#define UROCE_STATUS(name) \
  { #name, IBV_WC_##name }
  const std::pair<const char*, enum ibv_wc_status> all[] = {
      UROCE_STATUS(LOC_LEN_ERR),       UROCE_STATUS(LOC_QP_OP_ERR),    UROCE_STATUS(LOC_EEC_OP_ERR),
      UROCE_STATUS(LOC_PROT_ERR),      UROCE_STATUS(WR_FLUSH_ERR),     UROCE_STATUS(MW_BIND_ERR),
      UROCE_STATUS(BAD_RESP_ERR),      UROCE_STATUS(LOC_ACCESS_ERR),   UROCE_STATUS(REM_INV_REQ_ERR),
      UROCE_STATUS(REM_ACCESS_ERR),    UROCE_STATUS(REM_OP_ERR),       UROCE_STATUS(RETRY_EXC_ERR),
      UROCE_STATUS(RNR_RETRY_EXC_ERR), UROCE_STATUS(LOC_RDD_VIOL_ERR), UROCE_STATUS(REM_INV_RD_REQ_ERR),
      UROCE_STATUS(REM_ABORT_ERR),     UROCE_STATUS(INV_EECN_ERR),     UROCE_STATUS(INV_EEC_STATE_ERR),
      UROCE_STATUS(FATAL_ERR),         UROCE_STATUS(RESP_TIMEOUT_ERR), UROCE_STATUS(GENERAL_ERR)};
#undef UROCE_STATUS
  for (const auto& [name, status] : all) {
    const auto spec = engine::faults::parse_faults(std::string("wr=qp:1#1:") + name);
    ASSERT_TRUE(spec.ok()) << spec.error();
    EXPECT_EQ(spec->wrs.front().status, static_cast<int>(status)) << name;
  }
}

TEST(InjectedFaults, TheNthWorkRequestCompletesWithTheStatusAndTheRestIsFlushed) {
  ask_for("wr=qp:1st#2:RETRY_EXC_ERR");
  Pair p;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    struct ibv_sge sge = p.a.sge(0, 64);
    struct ibv_send_wr wr = send_wr(id, IBV_WR_RDMA_WRITE, &sge);
    wr.wr.rdma.remote_addr = p.b.address();
    wr.wr.rdma.rkey = p.b.mr->rkey;
    ASSERT_EQ(post(p.qa.get(), wr), 0);
  }
  const enum ibv_wc_status expected[] = {IBV_WC_SUCCESS, IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR};
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const struct ibv_wc wc = wait_completion(p.a.send_cq);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.status, expected[id - 1]);
  }
  EXPECT_EQ(state_of(p.qa.get()), IBV_QPS_ERR);
  EXPECT_EQ(nic_facts(p.a.context.get())->faults.wrs, 1u);
}

TEST(InjectedFaults, ReceiversSayThatTheyAreNotReady) {
  ask_for("rnr=50%");
  Pair p;
  for (std::uint64_t id = 0; id < 50; ++id) {
    ASSERT_EQ(post_recv(p.qb.get(), id, p.b.sge(0, 64)), 0);
    struct ibv_sge sge = p.a.sge(0, 64);
    ASSERT_EQ(post(p.qa.get(), send_wr(id, IBV_WR_SEND, &sge)), 0);
    EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait_completion(p.b.recv_cq).wr_id, id);
  }
  const auto facts = nic_facts(p.b.context.get());
  EXPECT_GT(facts->faults.rnr, 10u);
  EXPECT_EQ(facts->counters.send_rnr_err, facts->faults.rnr);
}

TEST(InjectedFaults, APortGoesDownAndComesBack) {
  ask_for("port=down@1s..1200ms");
  Node node(0);
  const auto state = [&node] {
    struct ibv_port_attr attr {};
    EXPECT_EQ(verbs_get_ctx(node.context.get())->query_port(node.context.get(), 1, &attr, sizeof attr), 0);
    return attr.state;
  };
  EXPECT_EQ(state(), IBV_PORT_ACTIVE);
  ASSERT_EQ(next_async_event(node.context.get()), IBV_EVENT_PORT_ERR);
  const enum ibv_port_state after_error = state();
  const bool was_down_all_the_while = !readable(node.context->async_fd, 0);
  EXPECT_TRUE(after_error == IBV_PORT_DOWN || !was_down_all_the_while);
  ASSERT_EQ(next_async_event(node.context.get()), IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(state(), IBV_PORT_ACTIVE);
}

/// A child has no NIC, and sees what its parent tells all processes.
TEST(InjectedFaults, OthersSeeAPortThatIsDown) {
  ask_for("port=down@1s..1h");
  const Node node(0);
  ASSERT_EQ(next_async_event(node.context.get()), IBV_EVENT_PORT_ERR);
  auto& device = static_cast<Device&>(*node.context->device);
  EXPECT_EQ(uroce::test::in_child([&] { return device.port_view().up ? "up" : "down"; }), "down");
}

TEST(InjectedFaults, AQpBreaks) {
  ask_for("qp_fatal=qp:1st@1s");
  Node node(0);
  const QpPtr qp = node.make_qp();
  EXPECT_EQ(next_async_event(node.context.get()), IBV_EVENT_QP_FATAL);
  EXPECT_EQ(state_of(qp.get()), IBV_QPS_ERR);
}

TEST(InjectedFaults, ACqOverflowsAndTakesItsQpsWithIt) {
  ask_for("cq_overflow=qp:1st@1s");
  Pair p;
  EXPECT_EQ(next_async_event(p.a.context.get()), IBV_EVENT_CQ_ERR);
  EXPECT_EQ(next_async_event(p.a.context.get()), IBV_EVENT_QP_FATAL);
  EXPECT_EQ(state_of(p.qa.get()), IBV_QPS_ERR);
}

TEST(InjectedFaults, ADeviceDiesAndVerbsReturnEio) {
  ask_for("device_fatal=1s");
  Node node(0);
  EXPECT_EQ(next_async_event(node.context.get()), IBV_EVENT_DEVICE_FATAL);
  struct ibv_wc wc {};
  EXPECT_EQ(ibv_poll_cq(node.send_cq, 1, &wc), -EIO);
  errno = 0;
  EXPECT_EQ(v().ibv_alloc_pd(node.context.get()), nullptr);
  EXPECT_EQ(errno, EIO);
  errno = 0;
  EXPECT_EQ(v().ibv_open_device(node.context->device), nullptr);
  EXPECT_EQ(errno, EIO);
}

TEST(InjectedFaults, ADeadDeviceTouchesNothingThatIsDestroyedAfterwards) {
  ask_for("loss=100%,device_fatal=1s");
  const ContextPtr witness = open_device(0);  // Keeps the NIC when the pair is gone.
  {
    NodeOptions with_channel;
    with_channel.with_channel = true;
    Pair p({.timeout = 17}, with_channel, with_channel);  // 0.54 s, eight times.
    struct ibv_sge sge = p.a.sge(0, 64);
    ASSERT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
    EXPECT_EQ(next_async_event(p.a.context.get()), IBV_EVENT_DEVICE_FATAL);
    EXPECT_EQ(next_async_event(witness.get()), IBV_EVENT_DEVICE_FATAL);
  }
  EXPECT_FALSE(readable(witness->async_fd, 600)) << "in this time the request would have been sent again";
  const auto facts = nic_facts(witness.get());
  EXPECT_GE(facts->faults.of(engine::faults::Kind::kDrop), 1u) << "what it has counted stays readable";
}

TEST(InjectedFaults, NonsenseIsRefusedWhenTheDeviceIsOpened) {
  ask_for("los=1%");
  int count = 0;
  struct ibv_device** const list = v().ibv_get_device_list(&count);
  if (list == nullptr) {
    EXPECT_EQ(errno, EINVAL);
  } else {  // The list was made before; then the device itself says it.
    EXPECT_EQ(v().ibv_open_device(list[0]), nullptr);
    EXPECT_EQ(errno, EINVAL);
    v().ibv_free_device_list(list);
  }
  EXPECT_NE(last_error().find("'los=1%': there is no such fault"), std::string::npos) << last_error();
}

}  // namespace
}  // namespace uroce::ibv::test
