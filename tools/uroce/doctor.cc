// SPDX-License-Identifier: Apache-2.0
// `uroce doctor`: what stands in the way of the emulated NICs on this machine, and what to do about it.
#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <thread>
#include <vector>

#include "engine/broker/slots.h"
#include "engine/broker/start_broker.h"
#include "engine/port/open_port.h"
#include "engine/port/udp_socket.h"
#include "proto/address.h"
#include "proto/base/directory.h"
#include "proto/base/fd.h"
#include "tools/output/print.h"
#include "tools/preload/preload.h"
#include "tools/rdma/failure.h"
#include "tools/uroce/commands.h"
#include "tools/uroce/findings.h"
#include "tools/uroce/port_holders.h"
#include "tools/uroce/probe.h"
#include "verbs/ibverbs/catalogue/settings.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/host/address_watch.h"
#include "verbs/ibverbs/host/environment.h"

namespace uroce::tools {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kSmallSendBuffer = 200 << 10;  ///< What most systems allow, and enough.
constexpr std::uint32_t kCommonMtu = 1024;             ///< What an Ethernet of 1500 bytes has.
constexpr int kOwnPackets = 20;                        ///< Packets that a NIC sends to itself until one arrives,
constexpr auto kOwnPatience = 50ms;                    ///< one each.

std::optional<long> read_number(const char* path) {
  std::ifstream file(path);
  long value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

void check_library(Findings& findings) {
  const std::string library = library_path();
  if (const auto trouble = unreadable(library)) return findings.bad("library: " + trouble->what, trouble->remedy);
  if (const auto why = refused_path(library)) return findings.bad("library: " + *why, kAnotherFolder);
  if (::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return findings.good("library: " + library);
  findings.bad(fmt::format("library: it can't be loaded: {}", ::dlerror()),
               "install the libraries that it needs (`ldd` lists them)");
}

/// What the kernel has of its own under the names that ours will have.
void check_real_devices(Findings& findings) {
  std::error_code error;
  if (!std::filesystem::exists("/sys/class/infiniband", error)) return;
  for (const auto& device : entries_of("/sys/class/infiniband", error)) {
    findings.note("RDMA device of this machine: " + device.path().filename().string(),
                  "nothing to do; programs under `uroce run` see uroce's NICs only");
  }
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

/// The addresses that UROCE_ADDR names, which check_environment() judges.
std::vector<proto::Gid> named_addresses() {
  const auto plan = ibv::plan_addresses("", ibv::setting(ibv::Setting::kAddr));
  std::vector<proto::Gid> named;
  if (!plan.ok()) return named;
  for (const auto& nic : *plan) named.insert(named.end(), nic.begin(), nic.end());
  return named;
}

/// What a socket on all addresses means for NICs, which have addresses of their own.
std::string effect_of(const std::string& wildcard) {
  return std::string("no NIC can use an ") +
         (wildcard == "::" ? "IPv6 address, nor an IPv4 one if it takes both," : "IPv4 address") +
         " while this runs (the kernel's rdma_rxe, or a RoCE dissector?)";
}

/// Who has the port already.
void check_holders(Findings& findings, std::span<const proto::Gid> named) {
  std::set<std::string> told;  // A broker has a socket for every slot of an address.
  for (const PortHolder& holder : port_holders(proto::kRocePort)) {
    if (!told.insert(holder.address + ' ' + holder.process).second) continue;
    if (holder.process.starts_with("uroce-broker ")) {
      findings.good(fmt::format("UDP port 4791 of {}: shared by NICs of user {}", holder.address, holder.uid));
      continue;
    }
    const std::string what = fmt::format("UDP port 4791 of {}: in use by {}", holder.address, holder.who());
    if (holder.address == "0.0.0.0" || holder.address == "::") {
      findings.note(what, effect_of(holder.address));
    } else if (std::ranges::none_of(named, [&](const auto& a) { return proto::to_string(a) == holder.address; })) {
      findings.note(what, "nothing to do: the next NIC takes another address");
    }
  }
}

bool is_free(const proto::Gid& address) { return static_cast<bool>(engine::open_receive_socket(address)); }

/// The first loopback address that is free, as an automatic NIC takes it.
std::optional<proto::Gid> check_loopback(Findings& findings) {
  const auto loopback = ibv::interface_name(proto::Gid::from_v4(127, 0, 0, 1));
  if (!loopback || !is_up(*loopback)) {
    findings.bad(
        loopback ? "addresses: the interface " + *loopback + " is down" : "addresses: no interface has 127.0.0.1",
        "ip link set lo up; or name an address of another interface: UROCE_ADDR");
    return std::nullopt;
  }
  for (std::uint8_t n = 1; n < 255; ++n) {
    const proto::Gid candidate = proto::Gid::from_v4(127, 0, 0, n);
    const auto socket = engine::open_receive_socket(candidate);
    if (socket) {
      findings.good("addresses: " + proto::to_string(candidate) + " is free");
      return candidate;
    }
    if (socket.error().error == EADDRINUSE) continue;
    findings.bad("addresses: " + socket.error().sentence, "uroce needs UDP port 4791 of the addresses of its NICs");
    return std::nullopt;
  }
  findings.bad("addresses: UDP port 4791 is in use on all of 127.0.0.1 .. 127.0.0.254",
               "end the process that uses the port");
  return std::nullopt;
}

/// An address to open ports on, for a while: of those that are named, or one of loopback.
std::optional<proto::Gid> check_addresses(Findings& findings) {
  const std::vector<proto::Gid> named = named_addresses();
  check_holders(findings, named);
  if (named.empty()) return check_loopback(findings);
  const auto free = std::ranges::find_if(named, is_free);
  return free == named.end() ? std::nullopt : std::optional(*free);
}

/// What the kernel grants a socket that asks for more than any limit: net.core.wmem_max, which /proc may not show.
std::uint32_t send_buffer_max() {
  const Fd socket{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  int bytes = std::numeric_limits<int>::max() / 2;
  socklen_t size = sizeof bytes;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &bytes, size);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &bytes, &size) != 0) return 0;
  return static_cast<std::uint32_t>(bytes) / 2;  // The kernel doubles what was asked for.
}

/// Opens a port for real: whatever can be wrong with sockets shows here.
void check_sockets(Findings& findings, const proto::Gid& address) {
  const std::array addresses{address};
  const auto sockets = engine::open_port(addresses, engine::EngineChoice::kSocket);
  if (!sockets) return findings.bad("sockets: " + sockets.error().sentence, "uroce needs UDP sockets");
  constexpr std::uint32_t kWanted = 1 << 20;
  const std::uint32_t got = (*sockets)->info().receive_buffer_bytes;
  if (got >= kWanted) {
    findings.good(fmt::format("receive buffer: {} KiB", got >> 10));
  } else {
    findings.note(fmt::format("receive buffer: only {} KiB; bursts may be lost and sent again", got >> 10),
                  "sysctl -w net.core.rmem_max=8388608");
  }
  const std::uint32_t sends = send_buffer_max();
  if (sends >= kSmallSendBuffer) {
    findings.good(fmt::format("send buffer: up to {} KiB", sends >> 10));
  } else {
    findings.note(fmt::format("send buffer: only up to {} KiB", sends >> 10), "sysctl -w net.core.wmem_max=2097152");
  }
}

/// Why io_uring is refused, and how to get it.
std::string io_uring_remedy() {
  if (read_number("/proc/sys/kernel/io_uring_disabled").value_or(0) != 0) {
    return "sysctl -w kernel.io_uring_disabled=0; until then sockets are used: the same packets, but slower";
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("Seccomp:") || line.ends_with("0")) continue;
    return "a seccomp filter is in force; Docker: --security-opt seccomp=unconfined, or a profile with io_uring_*. "
           "Until then sockets are used: the same packets, but slower";
  }
  return "sockets are used instead: the same packets, but slower";
}

void check_io_uring(Findings& findings, const proto::Gid& address) {
  const std::array addresses{address};
  const auto port = engine::open_port(addresses, engine::EngineChoice::kIoUring);
  if (port) return findings.good("io_uring: " + (*port)->info().features);
  if (ibv::setting(ibv::Setting::kEngine) == "io_uring") {
    return findings.bad("UROCE_ENGINE=io_uring: " + port.error().sentence, "unset UROCE_ENGINE: sockets work too");
  }
  findings.note("io_uring: " + port.error().sentence, io_uring_remedy());
}

void check_broker(Findings& findings, const std::optional<proto::Gid>& address) {
  const auto broker = engine::find_broker();
  if (!broker) {
    return findings.note("sharing of addresses: there is no uroce-broker next to this program",
                         "every process needs its own address; or install all of uroce");
  }
  if (address) {
    if (const auto sockets = engine::open_slot_sockets(*address); !sockets) {
      return findings.note("sharing of addresses: " + sockets.error().sentence,
                           "until then, UROCE_BROKER=off, and an address for each process (UROCE_ADDR)");
    }
  }
  findings.good("sharing of addresses: " + *broker);
}

void check_memlock(Findings& findings) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return findings.good("locked memory: unlimited");
  const std::string size = fmt::format("locked memory: {} KiB", limit.rlim_cur >> 10);
  // Memory regions are not pinned; only programs that look at the limit themselves care.
  findings.note(size, "uroce pins nothing; if a program requires more: `ulimit -l unlimited`");
}

void check_ipv6(Findings& findings) {
  if (ibv::interface_name(*proto::parse_gid("::1"))) return findings.good("IPv6: on for lo");
  findings.note("IPv6: off for the loopback interface",
                "only IPv4 GIDs; sysctl -w net.ipv6.conf.lo.disable_ipv6=0; ip link set lo up mtu 1280, or more");
}

/// Whether a packet with so much payload comes back to the NIC. It sends several: a queue may be full.
bool comes_back(Probe& probe, std::uint32_t payload) {
  using Clock = std::chrono::steady_clock;
  Probe::Arrivals arrivals;
  const std::uint64_t& arrived = payload > Probe::kSmallBytes ? arrivals.large : arrivals.small;
  for (int i = 0; i < kOwnPackets; ++i) {
    probe.send(payload);
    for (const auto end = Clock::now() + kOwnPatience; Clock::now() < end; std::this_thread::sleep_for(100us)) {
      probe.collect(arrivals);
      if (arrived != 0) return true;
    }
  }
  return false;
}

void check_packets(Findings& findings, Probe& probe, const proto::Gid& address) {
  const std::string from_to = fmt::format("packets: from {0} to {0}", proto::to_string(address));
  const std::string remedy =
      is_up("lo") ? "probably a firewall drops them within this host: find the rule (as root: nft list ruleset, "
                    "iptables-save), and let UDP port 4791 pass"
                  : "what a host sends to itself goes through lo, which is down: ip link set lo up";
  probe.aim_at(probe.describe());
  if (!comes_back(probe, Probe::kSmallBytes)) return findings.bad(from_to + " none arrives", remedy);
  if (comes_back(probe, probe.mtu())) return findings.good(from_to + " they arrive");
  findings.bad(fmt::format("{} those of {} bytes arrive, those of {} do not", from_to, Probe::kSmallBytes, probe.mtu()),
               remedy);
}

/// Opens a NIC as programs do, and has it send itself packets: whatever else a process may lack shows here.
void check_nic(Findings& findings) {
  // A capture would be written over, a recording be of nothing, and packets be lost on purpose.
  for (const ibv::Setting which : {ibv::Setting::kPcap, ibv::Setting::kRecord, ibv::Setting::kFaults}) {
    ::unsetenv(ibv::settings().at(static_cast<std::size_t>(which)).name);
  }
  try {
    Probe probe("");
    const proto::Gid address = probe.address();
    const std::string interface = ibv::interface_name(address).value_or("INTERFACE");
    if (!ibv::is_link_up({address})) {
      return findings.bad(fmt::format("NIC: its port is down, for {} is down or has no carrier", interface),
                          fmt::format("ip link set {} up, and the other end of its cable (see: ip link show {})",
                                      interface, interface));
    }
    const std::string remedy = fmt::format("ip link set {} mtu 1500, or more", interface);
    const std::uint32_t interface_mtu = ibv::interface_mtu(interface).value_or(ibv::kInterfaceMtuMin);
    if (interface_mtu < ibv::kInterfaceMtuMin) {
      return findings.bad(fmt::format("NIC: the MTU of {} is {}; the smallest that RoCE can do with is {}", interface,
                                      interface_mtu, ibv::kInterfaceMtuMin),
                          remedy);
    }
    const std::string what = fmt::format("NIC: can be opened, with packets of up to {} bytes", probe.mtu());
    probe.mtu() >= kCommonMtu ? findings.good(what)
                              : findings.note(what + ": the MTU of its interface is small", remedy);
    check_packets(findings, probe, address);
  } catch (const Failure& failure) {
    findings.bad(fmt::format("NIC: {}", failure.what()),
                 "put that right; programs get the same error from ibv_open_device");
  }
}

bool in_path(const std::string& program) {
  const char* const path = secure_getenv("PATH");
  std::istringstream directories(path == nullptr ? "" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (::access((directory + '/' + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

void check_captures(Findings& findings) {
  if (in_path("tshark")) return findings.good("captures: tshark is installed");
  if (in_path("wireshark")) return findings.good("captures: wireshark is installed");
  findings.note("captures: neither tshark nor wireshark is installed",
                "apt install tshark, to read captures (--pcap itself does not need it)");
}

}  // namespace

void Findings::add(Level level, const std::string& what, const std::string& remedy) {
  constexpr const char* kMarks[] = {"ok  ", "note", "BAD "};
  print_to(stdout, "{}  {}\n", kMarks[static_cast<int>(level)], what);
  if (!remedy.empty()) print_to(stdout, "      -> {}\n", remedy);
  any_bad_ |= level == Level::kBad;
}

int doctor() {
  Findings findings;
  check_library(findings);
  check_kernel(findings);
  check_real_devices(findings);
  const auto address = check_addresses(findings);
  if (address) {
    check_sockets(findings, *address);
    check_io_uring(findings, *address);
  }
  check_broker(findings, address);
  check_memlock(findings);
  check_ipv6(findings);
  check_captures(findings);
  check_environment(findings);
  check_reach(findings);
  if (!findings.any_bad()) check_nic(findings);
  print_to(stdout, "{}\n",
           findings.any_bad() ? "\nThe emulated NICs can't work here." : "\nThe emulated NICs can work here.");
  return findings.any_bad() ? 1 : 0;
}

}  // namespace uroce::tools
