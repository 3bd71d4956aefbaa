// SPDX-License-Identifier: Apache-2.0
// Attempts to make the objects that the NIC does not have, each with the words for how far they came.
#pragma once

#include <string>

#include "tests/judged/conformance/lab.h"

namespace uroce::conformance {

/// "create QP: EOPNOTSUPP" for a type that does not exist.
std::string try_qp(enum ibv_qp_type type);
/// An address handle; `then_dealloc_pd`: what deallocating its PD says then.
std::string try_ah(const struct ibv_ah_attr& attr, bool then_dealloc_pd = false);

}  // namespace uroce::conformance
