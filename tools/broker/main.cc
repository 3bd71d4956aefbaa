// SPDX-License-Identifier: Apache-2.0
// uroce-broker ADDRESS, or uroce-broker --wills: see engine/broker. Libraries start it by themselves; nobody has to.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "engine/broker/broker.h"
#include "engine/broker/execute_wills.h"
#include "engine/broker/start_broker.h"
#include "proto/address.h"
#include "tools/version/version.h"

namespace {

/// Tells the process that started this one, and lets go of it.
void report(const std::string& text) {
  [[maybe_unused]] const ssize_t n = ::write(uroce::engine::kBrokerReport, text.data(), text.size());
  ::close(uroce::engine::kBrokerReport);
}

/// There is one descriptor per slot and per NIC, and those in flight count as well.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::puts(uroce::tools::version_text("uroce-broker").c_str());
    return 0;
  }
  if (argc == 2 && std::string_view(argv[1]) == uroce::engine::kExecuteWills) {
    return uroce::engine::execute_wills(uroce::engine::kBrokerReport) ? 0 : 2;
  }
  const auto local = argc == 2 ? uroce::proto::parse_gid(argv[1]) : std::nullopt;
  if (!local) {
    if (argc == 2) std::fprintf(stderr, "uroce-broker: '%s' is no IPv4 or IPv6 address\n", argv[1]);
    std::fputs("usage: uroce-broker ADDRESS\nLeases slots of ADDRESS to uroce's NICs, which start it themselves.\n",
               stderr);
    return 2;
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  raise_descriptor_limit();
  auto broker = uroce::engine::Broker::listen(*local);
  if (!broker && broker.error().error != EADDRINUSE) {
    report(broker.error().sentence);
    return 1;
  }
  report(std::string(1, uroce::engine::kBrokerListens));  // This one or another.
  if (broker) broker->run();
  return 0;
}
