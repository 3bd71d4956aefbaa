// SPDX-License-Identifier: Apache-2.0
// What the two ways to poll a CQ, ibv_poll_cq() and ibv_start_poll(), have in common.
#pragma once

#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv {

/// Looks for completions with `take()`, which is called with the NIC's lock held and returns whether there were some.
/// When there are none, the thread turns the crank, and may wait a little where it is going to sleep. Returns whether
/// there were some in the end; the error is EIO.
template <class Take>
Result<bool, int> look(CompletionQueue& cq, const Take& take) {
  Adapter& adapter = *context_of(cq.context).adapter;
  {
    NicLock lock(adapter);
    if (!lock) return Err{refuse_without_nic()};
    const bool is_armed = cq.armed_since_poll;
    if (take()) {
      if (!is_armed) lock.found();
      return true;
    }
    // Programs arm the CQ, look once more for what came in between, and sleep.
    cq.armed_since_poll = false;
    // Nothing there: the thread that polls turns the crank.
    lock.poll();
    if (take()) return true;
    if (!is_armed) {
      lock.found_nothing();
      return false;
    }
    lock.stop_polling();
  }
  if (cq.channel == nullptr || !adapter.before_sleep()) return false;
  const NicLock lock(adapter);
  return lock && take();
}

}  // namespace uroce::ibv
