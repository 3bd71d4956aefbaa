// SPDX-License-Identifier: Apache-2.0
// docs/nic.md: what the NIC checks, counts and tells, printed from the tables that make it do so.
#pragma once

#include <string>

namespace uroce::test {

std::string reference_page();

}  // namespace uroce::test
