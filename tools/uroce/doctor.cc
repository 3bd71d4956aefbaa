// `uroce doctor`: what stands in the way of the emulated NICs on this machine, and what to do about it.
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "engine/open_port.h"
#include "proto/address.h"
#include "tools/uroce/commands.h"
#include "verbs/ibverbs/address.h"

namespace uroce::tools {
namespace {

enum class Level { kGood, kNote, kBad };

/// Prints findings and remembers the worst.
class Findings {
 public:
  void good(const std::string& what) { add(Level::kGood, what, ""); }
  /// Works, but not as well as it could.
  void note(const std::string& what, const std::string& remedy) { add(Level::kNote, what, remedy); }
  /// Nothing works until this is put right.
  void bad(const std::string& what, const std::string& remedy) { add(Level::kBad, what, remedy); }
  bool any_bad() const { return any_bad_; }

 private:
  void add(Level level, const std::string& what, const std::string& remedy) {
    constexpr const char* kMarks[] = {"ok  ", "note", "BAD "};
    fmt::print("{}  {}\n", kMarks[static_cast<int>(level)], what);
    if (!remedy.empty()) fmt::print("      -> {}\n", remedy);
    any_bad_ |= level == Level::kBad;
  }
  bool any_bad_ = false;
};

std::optional<long> read_number(const char* path) {
  std::ifstream file(path);
  long value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

void check_library(Findings& findings) {
  const std::string library = library_path();
  if (::access(library.c_str(), R_OK) == 0) return findings.good("library: " + library);
  findings.bad("library: " + library + " is missing", "build the target uroce_libibverbs");
}

void check_kernel(Findings& findings) {
  utsname name{};
  ::uname(&name);
  int major = 0, minor = 0;
  char dot = 0;
  std::istringstream(name.release) >> major >> dot >> minor;
  if (major > 6 || (major == 6 && minor >= 1)) return findings.good(fmt::format("kernel: Linux {}", name.release));
  findings.note(fmt::format("kernel: Linux {}", name.release), "io_uring needs 6.1 or newer; sockets are used instead");
}

/// Opens a port for real, with both engines: whatever can be wrong with sockets and rings shows here.
void check_engines(Findings& findings) {
  std::optional<proto::Gid> address;
  for (std::uint8_t n = 1; n < 255 && !address; ++n) {
    const proto::Gid candidate = proto::Gid::from_v4(127, 0, 0, n);
    if (ibv::is_port_free(candidate)) address = candidate;
  }
  if (!address) {
    return findings.bad("addresses: UDP port 4791 can't be had on any of 127.0.0.1 .. 127.0.0.254",
                        "is the loopback interface up (ip link set lo up), or do that many NICs run?");
  }
  if (*address == proto::Gid::from_v4(127, 0, 0, 1)) {
    findings.good("addresses: 127.0.0.1 is free");
  } else {
    findings.note("addresses: 127.0.0.1 is taken on UDP port 4791; the next NIC gets " + proto::to_string(*address),
                  "nothing to do; `ss -lunp sport = 4791` shows who has it");
  }
  const std::array addresses{*address};
  const auto sockets = engine::open_port(addresses, engine::EngineChoice::kSocket);
  if (!sockets) return findings.bad("sockets: " + sockets.error().sentence, "nothing works without UDP sockets");
  constexpr std::uint32_t kWanted = 1 << 20;
  const std::uint32_t got = (*sockets)->info().receive_buffer_bytes;
  if (got >= kWanted) {
    findings.good(fmt::format("socket buffer: {} KiB", got >> 10));
  } else {
    findings.note(fmt::format("socket buffer: only {} KiB, so that bursts may be lost and sent again", got >> 10),
                  "sysctl -w net.core.rmem_max=8388608");
  }
}

void check_io_uring(Findings& findings) {
  for (std::uint8_t n = 1; n < 255; ++n) {
    const std::array addresses{proto::Gid::from_v4(127, 0, 0, n)};
    const auto port = engine::open_port(addresses, engine::EngineChoice::kIoUring);
    if (port) return findings.good("io_uring: " + (*port)->info().features);
    if (port.error().error == EADDRINUSE) continue;
    return findings.note("io_uring: " + port.error().sentence,
                         "sockets are used instead: the same packets, more slowly");
  }
}

void check_memlock(Findings& findings) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return findings.good("locked memory: unlimited");
  const std::string size = fmt::format("locked memory: {} KiB", limit.rlim_cur >> 10);
  // Memory regions are not pinned; only programs that look at the limit themselves care.
  findings.note(size, "uroce pins nothing; a program that insists on more wants `ulimit -l unlimited`");
}

void check_ipv6(Findings& findings) {
  if (read_number("/proc/sys/net/ipv6/conf/lo/disable_ipv6").value_or(1) == 0) return findings.good("IPv6: on for lo");
  findings.note("IPv6: off for the loopback interface", "only IPv4 GIDs; sysctl -w net.ipv6.conf.lo.disable_ipv6=0");
}

bool in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (::access((directory + '/' + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

void check_tshark(Findings& findings) {
  if (in_path("tshark")) return findings.good("tshark: installed");
  if (in_path("wireshark")) return findings.good("wireshark: installed");
  findings.note("tshark: not installed", "apt install tshark, to read what --pcap captures");
}

void check_environment(Findings& findings) {
  for (const char* variable : {"UROCE_ADDR", "UROCE_DEVICES", "UROCE_ENGINE", "UROCE_PCAP", "UROCE_FAULTS"}) {
    const char* const value = std::getenv(variable);
    if (value != nullptr) findings.note(fmt::format("{}={}", variable, value), "set in your environment: it counts");
  }
}

}  // namespace

int doctor() {
  Findings findings;
  check_library(findings);
  check_kernel(findings);
  check_io_uring(findings);
  check_engines(findings);
  check_memlock(findings);
  check_ipv6(findings);
  check_tshark(findings);
  check_environment(findings);
  fmt::print("{}\n",
             findings.any_bad() ? "\nThe emulated NICs can't work like this." : "\nThe emulated NICs can work here.");
  return findings.any_bad() ? 1 : 0;
}

}  // namespace uroce::tools
