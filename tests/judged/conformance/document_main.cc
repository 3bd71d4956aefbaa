// SPDX-License-Identifier: Apache-2.0
// Prints docs/conformance.md.
#include <cstdio>

#include "tests/judged/conformance/document.h"

int main() { return std::fputs(uroce::conformance::document().c_str(), stdout) < 0 ? 1 : 0; }
