// SPDX-License-Identifier: Apache-2.0
// What is done with SRQs, in the words of the table. One NIC, but for what two would see.
#pragma once

#include <string>

#include "tests/judged/conformance/lab.h"

namespace uroce::conformance {

/// "ok, max_wr=16, max_sge=1", or the errno.
std::string create_srq(const struct ibv_srq_attr& attr);
/// Posts receives to an SRQ of 16 until one is refused.
std::string fill_srq();
/// Modifies a full SRQ of 16.
std::string modify_srq(const struct ibv_srq_attr& attr, int mask);
/// A QP with an SRQ goes to ERR.
std::string error_with_srq();
std::string dealloc_pd_with_srq();
std::string destroy_used_srq();

}  // namespace uroce::conformance
