// SPDX-License-Identifier: Apache-2.0
// For a program that has taken all the memory that it may have: replaces operator new of the test that links it.
#pragma once

namespace uroce::test {

/// The test defines it. Asked before each allocation, by the thread that wants it: false, and there is no memory.
bool may_allocate();

}  // namespace uroce::test
