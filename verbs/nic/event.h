// What a NIC has to tell its owner besides completions.
#pragma once

#include "verbs/nic/cq.h"

namespace uroce::nic {

class Qp;  // verbs/transport/qp.h

/// Something the NIC has to tell its owner, in order of occurrence.
struct Event {
  enum class Kind : std::uint8_t {
    kCqNotify,  ///< An armed CQ got a completion (completion channel).
    kCqErr,     ///< CQ overflow.
    kQpFatal,
    kQpReqErr,     ///< Invalid request at the responder.
    kQpAccessErr,  ///< Remote access error at the responder.
    kCommEst,      ///< First packet arrived in RTR.
    kSqDrained,
  };
  Kind kind;
  Cq* cq = nullptr;
  Qp* qp = nullptr;
};

}  // namespace uroce::nic
