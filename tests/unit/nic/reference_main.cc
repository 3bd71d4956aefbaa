// SPDX-License-Identifier: Apache-2.0
// Prints docs/nic.md.
#include <cstdio>

#include "tests/unit/nic/reference_page.h"

int main() { return std::fputs(uroce::test::reference_page().c_str(), stdout) < 0 ? 1 : 0; }
