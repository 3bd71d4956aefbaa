// SPDX-License-Identifier: Apache-2.0
// Which halves a QP consists of.
#pragma once

#include <memory>

#include "verbs/nic/transport/base/halves.h"

namespace uroce::nic {

/// The halves for the type in `context.init`.
std::unique_ptr<RequesterHalf> make_requester(QpContext& context, TimerTable& timers);
std::unique_ptr<ResponderHalf> make_responder(QpContext& context);

}  // namespace uroce::nic
