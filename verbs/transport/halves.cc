#include "verbs/transport/halves.h"

#include "verbs/transport/requester.h"
#include "verbs/transport/responder.h"

namespace uroce::nic {

std::unique_ptr<RequesterHalf> make_requester(QpContext& context, TimerTable& timers) {
  return std::make_unique<Requester>(context, timers);
}

std::unique_ptr<ResponderHalf> make_responder(QpContext& context) { return std::make_unique<Responder>(context); }

}  // namespace uroce::nic
