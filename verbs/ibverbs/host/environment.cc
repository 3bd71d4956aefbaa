// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/environment.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "proto/address.h"
#include "proto/base/number.h"
#include "verbs/ibverbs/hooks/call_faults.h"
#include "verbs/ibverbs/host/address.h"

namespace uroce::ibv {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool is_usable(const proto::Gid& address) {
  return !address.is_any() && !address.is_multicast() && !address.is_link_local() && !is_broadcast(address);
}

/// What an address, or an interface that stands for its addresses, means on this machine.
Result<std::vector<proto::Gid>, std::string> addresses_meant_by(const std::string& text) {
  const std::size_t scope = text.find('%');  // Of a link-local address.
  const auto gid = proto::parse_gid(text.substr(0, scope));
  if (gid && scope == std::string::npos && is_usable(*gid)) return std::vector{*gid};
  if (gid)
    return Err{"UROCE_ADDR: '" + text +
               "' is not a unicast IPv4 or global IPv6 address; use another one (ip addr lists them)"};
  if (!has_interface(text)) {
    return Err{
        "UROCE_ADDR: '" + text +
        "' is neither an IPv4 or IPv6 address nor an interface of this machine; write an address alone "
        "(127.0.0.5, fd00::1: no brackets, port, prefix length, space or host name), or an interface that ip addr "
        "lists"};
  }
  auto addresses = addresses_of_interface(text);
  if (addresses.empty()) {
    return Err{"UROCE_ADDR: the interface " + text +
               " has no address that a NIC can have: give it one, or wait some seconds if that is an IPv6 address, "
               "which must not be link-local (ip addr shows which are \"tentative\")"};
  }
  return addresses;
}

Result<bool, std::string> on_or_off(const char* name, const std::string& value) {
  if (value.empty() || value == "off") return false;
  if (value == "on") return true;
  return Err{std::string(name) + " must be on or off, not '" + value + "'"};
}

}  // namespace

Result<AddressPlan, std::string> plan_addresses(const std::string& devices, const std::string& addresses) {
  AddressPlan plan;
  if (!addresses.empty()) {
    for (const std::string& nic : split(addresses, ';')) {
      std::vector<proto::Gid>& list = plan.emplace_back();
      for (const std::string& text : split(nic, ',')) {
        if (text.empty()) {
          return Err{"UROCE_ADDR: in '" + addresses +
                     "' there is no address beside a comma or a semicolon; leave that out, or name an address"};
        }
        const auto meant = addresses_meant_by(text);
        if (!meant.ok()) return Err{meant.error()};
        for (const proto::Gid& address : *meant) {
          const auto has = [&address](const auto& other) {
            return std::find(other.begin(), other.end(), address) != other.end();
          };
          if (std::any_of(plan.begin(), plan.end(), has)) {
            return Err{"UROCE_ADDR names " + proto::to_string(address) + " twice; give each NIC addresses of its own"};
          }
          list.push_back(address);
        }
      }
    }
  }
  if (plan.size() > kMaxDevices) return Err{std::string("UROCE_ADDR names more than 64 NICs")};
  if (devices.empty()) {
    if (plan.empty()) plan.emplace_back();
    return plan;
  }
  const auto count = parse_number<std::uint32_t>(devices);
  if (!count || *count < 1 || *count > kMaxDevices) {
    return Err{"UROCE_DEVICES must be a number from 1 to 64, not '" + devices + "'"};
  }
  if (plan.size() > *count) {
    return Err{"UROCE_ADDR has addresses for " + std::to_string(plan.size()) + " NICs, but UROCE_DEVICES is " +
               std::to_string(*count)};
  }
  plan.resize(*count);
  return plan;
}

Result<bool, std::string> sharing_wanted(const std::string& value) {
  if (value.empty() || value == "auto") return true;
  if (value == "off") return false;
  return Err{"UROCE_BROKER must be auto or off, not '" + value + "'"};
}

Result<engine::EngineChoice, std::string> choose_engine(const std::string& engine, const std::string& offload) {
  using enum engine::EngineChoice;
  if (!offload.empty() && offload != "none" && offload != "gso") {
    return Err{"UROCE_OFFLOAD must be none or gso, not '" + offload + "'"};
  }
  const bool gso = offload == "gso";
  if (engine.empty() || engine == "auto") return gso ? kGso : kAuto;
  if (engine == "socket") return gso ? kGso : kSocket;
  if (engine != "io_uring") return Err{"UROCE_ENGINE must be auto, io_uring or socket, not '" + engine + "'"};
  if (gso) return Err{std::string("UROCE_OFFLOAD=gso works with sockets only; leave out UROCE_ENGINE=io_uring")};
  return kIoUring;
}

Result<Wire, std::string> choose_wire(const std::string& value) {
  if (value.empty() || value == "udp") return Wire::kUdp;
  if (value == "shm") return Wire::kShm;
  if (value == "auto") return Wire::kAuto;
  return Err{"UROCE_WIRE must be udp, shm or auto, not '" + value + "'"};
}

Result<VendorId, std::string> vendor_id(const std::string& value) {
  if (value.empty()) return VendorId{};
  const std::vector<std::string> parts = split(value, ':');
  if (parts.size() == 2) {
    const auto vendor = parse_decimal_or_hex<std::uint32_t>(parts[0]);
    const auto part = parse_decimal_or_hex<std::uint32_t>(parts[1]);
    if (vendor && part) return VendorId{*vendor, *part};
  }
  return Err{"UROCE_VENDOR must be two numbers, VENDOR:PART, not '" + value + "'"};
}

Result<bool, std::string> lids_wanted(const std::string& value) { return on_or_off("UROCE_LID", value); }

Result<FirstGid, std::string> first_gid_wanted(const std::string& value) {
  if (value.empty() || value == "link-local") return FirstGid::kLinkLocal;
  if (value == "address") return FirstGid::kAddress;
  return Err{"UROCE_GID0 must be link-local or address, not '" + value + "'"};
}

Result<bool, std::string> control_wanted(const std::string& value) { return on_or_off("UROCE_CONTROL", value); }

Result<bool, std::string> refusals_wanted(const std::string& value) { return on_or_off("UROCE_REFUSALS", value); }

Result<bool, std::string> strictness(const std::string& value) { return on_or_off("UROCE_STRICT", value); }

std::string check_faults(const std::string& faults) {
  const auto spec = engine::faults::parse_faults(faults);
  if (!spec) return "UROCE_FAULTS: " + spec.error();
  const std::string wrong = check_calls(*spec);
  return wrong.empty() ? "" : "UROCE_FAULTS: " + wrong;
}

}  // namespace uroce::ibv
