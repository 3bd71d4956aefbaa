// QPs as `rdma res show qp` sees them: from any process of the user.
#include "verbs/ibverbs/host/published_qps.h"

#include <unistd.h>

#include <algorithm>

#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/host/nic_source.h"

namespace uroce::ibv::test {
namespace {

std::optional<view::QpView> find(std::uint32_t qpn) {
  for (const view::QpView& qp : nic_source().qps(0)) {
    if (qp.qpn == qpn) return qp;
  }
  return std::nullopt;
}

TEST(PublishedQps, FollowAQpFromItsCreationToItsEnd) {
  Node a(0), b(1);
  QpPtr qp = a.make_qp();
  const std::uint32_t qpn = qp->qp_num;
  ASSERT_TRUE(find(qpn).has_value());
  EXPECT_EQ(find(qpn)->state, IBV_QPS_RESET);
  bring_to(qp.get(), IBV_QPS_RTS, b.gid(), 77);
  const auto shown = find(qpn);
  ASSERT_TRUE(shown.has_value());
  EXPECT_EQ(shown->state, IBV_QPS_RTS);
  EXPECT_EQ(shown->type, IBV_QPT_RC);
  EXPECT_TRUE(shown->is_connected);
  EXPECT_EQ(shown->dest_qpn, 77u);
  EXPECT_EQ(shown->sq_psn, 0xFFFFF0u);
  EXPECT_EQ(shown->pid, static_cast<std::uint32_t>(getpid()));
  qp.reset();
  EXPECT_FALSE(find(qpn).has_value());
}

}  // namespace
}  // namespace uroce::ibv::test
