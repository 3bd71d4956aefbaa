// SPDX-License-Identifier: Apache-2.0
// What a NIC has to tell its owner besides completions.
#pragma once

#include <cstdint>

namespace uroce::nic {

class Cq;
class Qp;
class Srq;

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
    kLastWqeReached,  ///< A QP with an SRQ is in ERR and takes no more receives from it.
    kSrqLimitReached,
  };
  Kind kind;
  Cq* cq = nullptr;
  Qp* qp = nullptr;
  Srq* srq = nullptr;
};

}  // namespace uroce::nic
