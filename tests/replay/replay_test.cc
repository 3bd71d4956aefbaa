#include <gtest/gtest.h>
#include "tests/proto/golden.h"
#include "tests/replay/allowed_differences.h"
#include "tests/replay/endpoint.h"
namespace uroce::replay {
TEST(Tmp, All) {
  for (const auto& topic : proto::test::golden_topics()) for (Side side : {Side::kA, Side::kB}) {
    if (excused(topic, side)) continue;
    try {
      const Replay r = replay(topic, side);
      for (const auto& d : r.differences) printf("%s %c [%s] rxe=%s ours=%s (%s)\n", topic.c_str(), letter(side), d.aspect.c_str(), d.rxe.c_str(), d.ours.c_str(), d.where.c_str());
    } catch (const std::exception& e) { printf("%s %c EXCEPTION %s\n", topic.c_str(), letter(side), e.what()); }
  }
}
}
