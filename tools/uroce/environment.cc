// SPDX-License-Identifier: Apache-2.0
// What the environment asks of the NICs, and whether this machine can give it.
#include "verbs/ibverbs/host/environment.h"

#include <fmt/core.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "engine/os/fd.h"
#include "engine/port/udp_socket.h"
#include "proto/address.h"
#include "tools/backend/unknown_settings.h"
#include "tools/uroce/findings.h"
#include "tools/uroce/port_holders.h"
#include "verbs/ibverbs/catalogue/settings.h"
#include "verbs/ibverbs/host/address.h"

namespace uroce::tools {
namespace {

using ibv::Setting;

/// The process that keeps a NIC from having the RoCE port of `address`; "" when there is none. One on all addresses
/// may be for one IP version only, so the kernel is asked.
std::string port_taken_by(const proto::Gid& address) {
  const auto socket = engine::open_receive_socket(address);
  if (socket || socket.error().error != EADDRINUSE) return "";
  std::string everywhere;
  for (const PortHolder& holder : port_holders(proto::kRocePort)) {
    const std::string who = holder.who();
    if (holder.address == proto::to_string(address)) return who.starts_with("uroce-broker ") ? "" : who;
    if (holder.address == "0.0.0.0" || holder.address == "::") everywhere = who;
  }
  return everywhere;
}

/// Whether an interface that is up has it.
bool is_usable(const proto::Gid& address) {
  const auto interface = ibv::interface_name(address);
  return interface && is_up(*interface);
}

/// False, and a finding, when no NIC can have `address`.
bool check_named_address(Findings& findings, const proto::Gid& address) {
  const std::string text = proto::to_string(address);
  const auto interface = ibv::interface_name(address);
  if (!interface) {
    findings.bad("UROCE_ADDR: no interface of this machine has the address " + text,
                 "use one that it has (see: ip address), or add this one: ip address add");
    return false;
  }
  if (!is_up(*interface)) {
    findings.bad(fmt::format("UROCE_ADDR: {} is an address of {}, which is down", text, *interface),
                 "ip link set " + *interface + " up");
    return false;
  }
  if (const std::string holder = port_taken_by(address); !holder.empty()) {
    findings.bad(fmt::format("UROCE_ADDR: UDP port 4791 of {} is in use by {}", text, holder),
                 "end that process, if it is yours, or name another address");
    return false;
  }
  return true;
}

bool check_named_addresses(Findings& findings, const std::string& value) {
  const auto plan = ibv::plan_addresses("", value);
  bool all = true;
  for (const auto& nic : *plan) {
    for (const proto::Gid& address : nic) all &= check_named_address(findings, address);
  }
  return all;
}

/// Whether files can be made in `folder`.
bool may_write_to(const std::filesystem::path& folder) { return ::access(folder.c_str(), W_OK | X_OK) == 0; }

bool check_capture_file(Findings& findings, const std::string& value) {
  const std::filesystem::path file(value.starts_with(">>") ? value.substr(2) : value);
  std::error_code error;
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  const bool exists = std::filesystem::exists(file, error);
  const bool writable =
      exists ? !std::filesystem::is_directory(file, error) && ::access(file.c_str(), W_OK) == 0 : may_write_to(folder);
  if (!writable)
    findings.bad("UROCE_PCAP: " + value + " can't be written", "name a file in a folder that you may write to");
  return writable;
}

/// The directory of recordings, which is made when it is not there.
bool check_recordings(Findings& findings, const std::string& value) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(value, error);
  const bool writable = may_write_to(std::filesystem::exists(folder, error) ? folder : folder.parent_path());
  if (!writable)
    findings.bad("UROCE_RECORD: can't write to " + value,
                 "name a directory that you may write to, or a new one in such");
  return writable;
}

/// A setting whose value is well-formed.
bool check_on_this_machine(Findings& findings, Setting which, const std::string& value) {
  if (which == Setting::kAddr) return check_named_addresses(findings, value);
  if (which == Setting::kPcap) return check_capture_file(findings, value);
  if (which == Setting::kRecord) return check_recordings(findings, value);
  return true;
}

}  // namespace

bool is_up(const std::string& interface) {
  const engine::Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return fd && ::ioctl(fd.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0;
}

void check_reach(Findings& findings) {
  const auto interfaces = ibv::interfaces_to_others();
  const auto plan = ibv::plan_addresses("", ibv::setting(Setting::kAddr));
  if (interfaces.empty() || !plan.ok()) return;
  bool is_for_others = false;
  for (const auto& nic : *plan) {
    if (std::ranges::all_of(nic, &proto::Gid::is_loopback)) continue;
    is_for_others = true;
    if (std::ranges::all_of(nic, is_usable)) {
      return findings.good("other hosts: they can reach the addresses of UROCE_ADDR (try it: uroce doctor --listen)");
    }
  }
  if (is_for_others) return;  // check_environment() has said what is wrong with them.
  findings.note("other hosts: NICs of `uroce run` have loopback addresses, which reach this host only",
                fmt::format("to reach other hosts: uroce run --addr {} -- COMMAND, on both", interfaces.front()));
}

void check_environment(Findings& findings) {
  const ibv::SettingTable& table = ibv::settings();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto which = static_cast<Setting>(i);
    const std::string value = ibv::setting(which);
    if (value.empty()) continue;
    const ibv::SettingFacts& facts = table.at(i);
    const std::string wrong = facts.check(value);
    if (!wrong.empty()) {
      findings.bad(wrong, fmt::format("correct it, or: unset {}", facts.name));
    } else if (check_on_this_machine(findings, which, value)) {
      findings.good(fmt::format("setting: {}={}", facts.name, value));
    }
  }
  for (const UnknownSetting& unknown : unknown_settings()) {
    findings.note(unknown.name + " is set, and no setting has that name",
                  unknown.meant.empty()
                      ? "see `uroce run --help` for the names"
                      : fmt::format("is {} meant? See `uroce run --help` for the names", unknown.meant));
  }
}

}  // namespace uroce::tools
