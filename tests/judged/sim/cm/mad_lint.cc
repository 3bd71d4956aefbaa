// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/cm/mad_lint.h"

#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using proto::cm::Attribute;

void MadLint::sent(engine::sim::NodeId node, const proto::cm::MessageView& message, Instant now) {
  constexpr std::uint32_t kSendsMax = 16;
  // The shortest interval of any of them; managers round, to what their clock has.
  const Duration interval = plan_.scaled(std::chrono::milliseconds{4096}) * 9 / 10;
  std::uint32_t id = 0;
  switch (message.attribute()) {
    case Attribute::kReq:
      id = message.as<proto::cm::Req>().get<proto::cm::Req::LocalId>();
      break;
    case Attribute::kRep:
      id = message.as<proto::cm::Rep>().get<proto::cm::Rep::LocalId>();
      break;
    case Attribute::kDreq:
      id = message.as<proto::cm::Dreq>().get<proto::cm::Dreq::LocalId>();
      break;
    case Attribute::kSidrReq:
      id = message.as<proto::cm::SidrReq>().get<proto::cm::SidrReq::RequestId>();
      break;
    default:
      return;  // Answers: as often as they are asked for.
  }
  Sends& sends = sends_[{node, message.attribute(), id}];
  if (++sends.count > kSendsMax) incorrect("{} of 0x{:08x} is sent {} times", message.info().name, id, sends.count);
  if (sends.count > 1 && now - sends.last < interval) {
    incorrect("{} of 0x{:08x} is sent again after {:.3f} us", message.info().name, id,
              static_cast<double>((now - sends.last).count()) / 1000.0);
  }
  sends.last = now;
}

}  // namespace uroce::simulator
