// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/transport/make_halves.h"

#include "verbs/nic/transport/rc/requester.h"
#include "verbs/nic/transport/rc/responder.h"
#include "verbs/nic/transport/unreliable/uc_responder.h"
#include "verbs/nic/transport/unreliable/ud_responder.h"
#include "verbs/nic/transport/unreliable/unacked_requester.h"

namespace uroce::nic {

std::unique_ptr<RequesterHalf> make_requester(QpContext& context, TimerTable& timers) {
  if (context.init.type == QpType::kRc) return std::make_unique<Requester>(context, timers);
  return std::make_unique<UnackedRequester>(context, timers);
}

std::unique_ptr<ResponderHalf> make_responder(QpContext& context) {
  switch (context.init.type) {
    case QpType::kRc:
      return std::make_unique<Responder>(context);
    case QpType::kUc:
      return std::make_unique<UcResponder>(context);
    case QpType::kUd:
      return std::make_unique<UdResponder>(context);
  }
  UROCE_ASSERT(false);
}

}  // namespace uroce::nic
