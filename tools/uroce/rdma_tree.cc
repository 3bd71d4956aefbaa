// SPDX-License-Identifier: Apache-2.0
#include "tools/uroce/rdma_tree.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "proto/base/directory.h"
#include "proto/base/printable.h"
#include "proto/timing.h"

namespace uroce::tools {
namespace {

namespace fs = std::filesystem;

/// The first line of a file; "" when it can't be read, as for entries of the GID table that are empty.
std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return proto::printable(line);
}

/// Names in a directory, in the order of people: numbers by value.
std::vector<std::string> names_in(const fs::path& directory, std::error_code& error) {
  std::vector<std::string> names;
  for (const auto& entry : entries_of(directory, error)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() && std::isdigit(static_cast<unsigned char>(a[0])) ? a.size() < b.size() : a < b;
  });
  return names;
}

bool is_v2(const GidRow& row) { return row.type == "RoCE v2"; }

RdmaPort read_port(const fs::path& sys, const std::string& device, const std::string& number) {
  const fs::path directory = sys / "class/infiniband" / device / "ports" / number;
  RdmaPort port;
  port.device = proto::printable(device);
  port.number = static_cast<int>(std::strtol(number.c_str(), nullptr, 10));
  const std::string state = first_line(directory / "state");  // "4: ACTIVE"
  port.state = state.substr(std::min(state.size(), state.find(' ') + 1));
  port.ethernet = first_line(directory / "link_layer") != "InfiniBand";
  port.rate = first_line(directory / "rate");
  std::error_code ignored;  // No GID is shown then.
  for (const std::string& index : names_in(directory / "gids", ignored)) {
    GidRow row;
    row.index = static_cast<int>(std::strtol(index.c_str(), nullptr, 10));
    if (inet_pton(AF_INET6, first_line(directory / "gids" / index).c_str(), row.gid.raw.data()) != 1) continue;
    if (row.gid.is_zero()) continue;
    row.type = first_line(directory / "gid_attrs/types" / index);
    row.interface = first_line(directory / "gid_attrs/ndevs" / index);
    if (port.interface.empty()) port.interface = row.interface;
    port.gids.push_back(row);
  }
  if (!port.interface.empty()) {
    const std::string mtu = first_line(sys / "class/net" / port.interface / "mtu");
    port.interface_mtu = static_cast<unsigned>(std::strtoul(mtu.c_str(), nullptr, 10));
  }
  return port;
}

/// What it means that the directory of the devices can't be read. A kernel without RDMA has none.
std::string wrong_with(const fs::path& sys, const std::error_code& error) {
  if (error != std::errc::no_such_file_or_directory)
    return fmt::format("{}/class/infiniband can't be read: {}", sys.string(), error.message());
  std::error_code ignored;
  return fs::is_directory(sys / "class", ignored) ? "" : sys.string() + " has no directory class, as every /sys has";
}

void read_device(const fs::path& sys, const std::string& device, RdmaTree& tree) {
  const fs::path directory = sys / "class/infiniband" / device / "ports";
  std::error_code error;
  const auto numbers = names_in(directory, error);
  for (const std::string& number : numbers) tree.ports.push_back(read_port(sys, device, number));
  if (!numbers.empty()) return;
  tree.portless.push_back({proto::printable(device),
                           proto::printable(directory.string()) + (error ? ": " + error.message() : " is empty")});
}

}  // namespace

RdmaTree read_rdma_tree(const fs::path& sys) {
  RdmaTree tree;
  std::error_code error;
  const auto devices = names_in(sys / "class/infiniband", error);
  if (error) tree.wrong = wrong_with(sys, error);
  for (const std::string& device : devices) read_device(sys, device, tree);
  return tree;
}

std::string judge(const RdmaPort& port, const GidRow& row) {
  if (!port.ethernet) return "InfiniBand";
  if (!is_v2(row)) return "RoCE v1: EtherType 0x8915, passes no router";
  if (row.gid.is_v4()) return "RoCE v2 over IPv4";
  if (row.gid.is_link_local()) return "link-local: this link only, and not between all kinds of devices";
  return "RoCE v2 over IPv6";
}

std::optional<GidRow> best_gid(const RdmaPort& port) {
  const auto first = [&port](auto&& wanted) -> std::optional<GidRow> {
    const auto found = std::find_if(port.gids.begin(), port.gids.end(), wanted);
    return found == port.gids.end() ? std::nullopt : std::optional(*found);
  };
  if (!port.ethernet) return first([](const GidRow&) { return true; });
  if (auto v4 = first([](const GidRow& row) { return is_v2(row) && row.gid.is_v4(); })) return v4;
  return first([](const GidRow& row) { return is_v2(row) && !row.gid.is_link_local(); });
}

unsigned path_mtu_for(unsigned ethernet_mtu) {
  // IPv6 40, UDP 8, BTH 12, AtomicETH 28 (RETH with immediate: 20), ICRC 4.
  constexpr unsigned kHeaders = 40 + 8 + 12 + 28 + 4;
  for (std::uint8_t code = proto::kMtuCodeMax; code >= proto::kMtuCodeMin; --code) {
    if (proto::mtu_bytes(code) + kHeaders <= ethernet_mtu) return proto::mtu_bytes(code);
  }
  return 0;
}

}  // namespace uroce::tools
