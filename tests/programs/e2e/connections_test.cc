// SPDX-License-Identifier: Apache-2.0
// What is said when librdmacm refuses.
#include "tools/rdma/connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tools/backend/rdmacm_table.h"
#include "tools/rdma/failure.h"
#include "verbs/ibverbs/catalogue/errors.h"

namespace uroce::tools {
namespace {

/// A librdmacm that reaches nobody, and tries verbs that a NIC need not have.
void unreachable() {
  static rdma_event_channel channel{};
  static rdma_cm_id id{};
  RdmaCmTable& table = rdma_cm_table();
  table.rdma_create_event_channel = [] { return &channel; };
  table.rdma_create_id = [](rdma_event_channel*, rdma_cm_id** made, void*, rdma_port_space) {
    *made = &id;
    return 0;
  };
  table.rdma_resolve_addr = [](rdma_cm_id*, sockaddr*, sockaddr*, int) {
    ibv::refuse(EOPNOTSUPP, "no connection enhancements");
    errno = ENETUNREACH;
    return -1;
  };
}

TEST(Connections, ARefusalIsThatOfLibrdmacm) {
  unreachable();
  RdmaResources resources;
  resources.gid.raw[15] = 1;
  CmAddress server;
  server.gid[15] = 2;
  try {
    connect_qp(resources, 0, server, {}, {}, [](int) {});
    FAIL() << "connected";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "RDMA CM can't resolve ::2: Network is unreachable");
  }
  rdma_cm_table() = {};
}

}  // namespace
}  // namespace uroce::tools
