// A QP that is connected to itself loses an ACK when the test says so.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <uroce/control.h>
#include <uroce/gtest.h>

namespace {

const bool kSaved = uroce::save_failed_tests();

constexpr int kTimeout = 10;  // 4 ms
constexpr int kRetries = 7;

class Loop : public testing::Test {
 protected:
  void SetUp() override {
    ibv_device** const devices = ibv_get_device_list(nullptr);
    ASSERT_TRUE(devices != nullptr && devices[0] != nullptr) << "no RDMA device: uroce run --control on -- ...";
    context = ibv_open_device(devices[0]);
    ibv_free_device_list(devices);
    ASSERT_NE(context, nullptr);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {16, 16, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(pd, &init);
    ASSERT_NE(qp, nullptr);
    connect_to_itself();
  }
  void TearDown() override {
    if (qp != nullptr) ibv_destroy_qp(qp);
    if (mr != nullptr) ibv_dereg_mr(mr);
    if (cq != nullptr) ibv_destroy_cq(cq);
    if (pd != nullptr) ibv_dealloc_pd(pd);
    if (context != nullptr) ibv_close_device(context);
  }

  void connect_to_itself() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp->qp_num;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = 1;
    ASSERT_EQ(ibv_query_gid(context, 1, 1, &attr.ah_attr.grh.dgid), 0);
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = kTimeout;
    attr.retry_cnt = kRetries;
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }

  ibv_wc_status write() {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory), 8, mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = sge.addr + 64;
    wr.wr.rdma.rkey = mr->rkey;
    EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    return wc.status;
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
  char memory[128] = {};
};

TEST_F(Loop, ALostAckIsRepaired) {
  ASSERT_EQ(uroce_lose(0, 1, "op:ack"), 0);
  EXPECT_EQ(write(), IBV_WC_SUCCESS);
  std::uint64_t lost = 0, timeouts = 0;
  EXPECT_EQ(uroce_counter(0, "injected_drop", &lost), 0);
  EXPECT_EQ(uroce_counter(0, "local_ack_timeout_err", &timeouts), 0);
  EXPECT_EQ(lost, 1u);
  EXPECT_GE(timeouts, 1u) << "on a busy machine the repeated ACK may be late as well";
}

TEST_F(Loop, AQpBreaksWithAnEvent) {
  ASSERT_EQ(uroce_break_qp(0, qp->qp_num), 0);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
  ibv_ack_async_event(&event);
  EXPECT_EQ(write(), IBV_WC_WR_FLUSH_ERR);
}

}  // namespace
