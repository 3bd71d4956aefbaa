// SPDX-License-Identifier: Apache-2.0
// A network namespace of the test's own, with loopback up: tests that run side by side can't take each other's
// addresses, and may capture, unprivileged users included where they can have user namespaces.
#pragma once

#include <string>

namespace uroce::test {

/// Moves this process, which must have one thread, into a new network namespace with lo up and fd77::1, fd77::2 and
/// fd77::3 on it. Returns why that is not possible; empty when done. IPv4 needs no preparation: all of 127/8 is on lo.
std::string enter_own_network();

/// What enter_own_network() returned in this process; it is called before the first test of every binary that links
/// this.
const std::string& own_network_failure();

}  // namespace uroce::test

/// Skips the test, visibly, where there is no network of its own.
#define UROCE_NEEDS_OWN_NETWORK() \
  if (!::uroce::test::own_network_failure().empty()) GTEST_SKIP() << ::uroce::test::own_network_failure()
