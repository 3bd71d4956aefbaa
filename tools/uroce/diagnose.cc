// SPDX-License-Identifier: Apache-2.0
// `uroce diagnose`: what an RDMA program finds on this machine, be it the machine's devices or uroce's, which GID index
// to take, what else could be in the way, and commands that will work here.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "proto/address.h"
#include "proto/base/fd.h"
#include "tools/output/print.h"
#include "tools/preload/preload.h"
#include "tools/uroce/commands.h"
#include "tools/uroce/findings.h"
#include "tools/uroce/firewall_rules.h"
#include "tools/uroce/rdma_tree.h"
#include "tools/version/version.h"
#include "verbs/ibverbs/catalogue/verbs_table.h"

namespace uroce::tools {
namespace {

constexpr std::uint16_t kToolPort = 18515;

/// uroce's own devices, asked through their verbs. All their GIDs are RoCE v2.
std::vector<RdmaPort> uroce_ports() {
  const ibv::VerbsTable& verbs = ibv::uroce_verbs();
  std::vector<RdmaPort> ports;
  int count = 0;
  struct ibv_device** const list = verbs.ibv_get_device_list(&count);
  for (int i = 0; list != nullptr && i < count; ++i) {
    struct ibv_context* const context = verbs.ibv_open_device(list[i]);
    if (context == nullptr) continue;
    struct ibv_port_attr attr {};
    verbs.ibv_query_port(context, 1, reinterpret_cast<struct _compat_ibv_port_attr*>(&attr));
    RdmaPort port;
    port.device = verbs.ibv_get_device_name(list[i]);
    port.state = attr.state == IBV_PORT_ACTIVE ? "ACTIVE" : "DOWN";
    for (int index = 0; index < attr.gid_tbl_len; ++index) {
      union ibv_gid raw {};
      if (verbs.ibv_query_gid(context, 1, index, &raw) != 0) continue;
      GidRow row{index, {}, "RoCE v2", ""};
      std::memcpy(row.gid.raw.data(), raw.raw, row.gid.raw.size());
      if (!row.gid.is_zero()) port.gids.push_back(row);
    }
    verbs.ibv_close_device(context);
    ports.push_back(port);
  }
  if (list != nullptr) verbs.ibv_free_device_list(list);
  return ports;
}

/// Prints port and GIDs. Whether a program can use it.
bool show(const RdmaPort& port, Findings& findings) {
  const auto best = best_gid(port);
  const std::string name = fmt::format("{} port {}", port.device, port.number);
  std::string facts = fmt::format("{}: {}, {}", name, port.state, port.ethernet ? "Ethernet (RoCE)" : "InfiniBand");
  if (!port.rate.empty()) facts += ", " + port.rate;
  if (port.interface_mtu != 0) {
    facts += fmt::format(", {} with MTU {}: path MTU up to {}", port.interface, port.interface_mtu,
                         path_mtu_for(port.interface_mtu));
  }
  const bool active = port.state == "ACTIVE";
  active ? findings.good(facts) : findings.bad(facts, "ip link set IFACE up; a cable; on InfiniBand a subnet manager");
  for (const GidRow& row : port.gids) {
    const bool chosen = best && row.index == best->index;
    print_to(stdout, "      GID {:<3} {:<40} {}{}\n", row.index, proto::to_string(row.gid), judge(port, row),
             chosen ? "  <- take this index" : "");
  }
  if (!best) findings.bad(name + ": no GID with an address", "give its network interface an IP address");
  return active && best;
}

void check_modules(bool machine_has_devices, Findings& findings) {
  constexpr std::array<std::string_view, 12> kWanted{"ib_uverbs", "rdma_ucm", "rdma_rxe", "siw",
                                                     "mlx5_ib",   "mlx4_ib",  "irdma",    "bnxt_re",
                                                     "qedr",      "erdma",    "efa",      "hns_roce_hw_v2"};
  std::string loaded;
  std::ifstream modules("/proc/modules");
  const bool known = modules.is_open();
  for (std::string line; std::getline(modules, line);) {
    const std::string name = line.substr(0, line.find(' '));
    if (std::find(kWanted.begin(), kWanted.end(), name) != kWanted.end()) loaded += (loaded.empty() ? "" : ", ") + name;
  }
  if (loaded.empty()) loaded = known ? "none for RDMA (uroce needs none)" : "not known, without /proc/modules";
  findings.good("kernel modules: " + loaded);
  if (!machine_has_devices) return;
  if (::access("/dev/infiniband/rdma_cm", F_OK) != 0) {
    findings.note("RDMA CM: the module rdma_ucm is not loaded",
                  "the first program that uses it (rping, --cm) usually loads it; if not: modprobe rdma_ucm");
  }
}

void check_locked_memory(bool machine_has_devices, Findings& findings) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return findings.good("locked memory: unlimited");
  const std::string size = fmt::format("locked memory: {} KiB", limit.rlim_cur >> 10);
  if (!machine_has_devices) return findings.good(size + " (uroce locks none)");
  findings.note(size,
                "ibv_reg_mr of more fails with ENOMEM; `ulimit -l unlimited`, or memlock in /etc/security/limits.conf");
}

struct Output {
  std::string text;  ///< With errors.
  bool worked = false;
};

/// What a command of root prints. `su` leaves root the PATH of a user, which may lack their folders.
Output output_of(const std::string& command) {
  Output output;
  const std::string line = "PATH=/usr/sbin:/sbin:/usr/bin:/bin${PATH:+:$PATH}; " + command + " 2>&1";
  std::FILE* const pipe = ::popen(line.c_str(), "r");  // NOLINT(cert-env33-c): of constants
  if (pipe == nullptr) return output;
  std::array<char, 4096> block{};
  for (std::size_t n; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;) output.text.append(block.data(), n);
  output.worked = ::pclose(pipe) == 0;
  return output;
}

/// Has the names of iptables-legacy's tables. `family`: ip, ip6.
std::string tables_file(const std::string& family) { return "/proc/net/" + family + "_tables_names"; }

/// The rules of iptables-legacy, which nft does not list, and neither does that iptables which calls nf_tables.
Output legacy_rules(const std::string& family) {
  std::string table;
  if (!(std::ifstream(tables_file(family)) >> table)) return {.text = "", .worked = true};
  Output rules = output_of("{ " + family + "tables-legacy-save || " + family + "tables-save; }");
  const auto has = [&](const std::string& word) { return rules.text.find(word) != std::string::npos; };
  rules.worked = rules.worked && has('*' + table) && !has("nf_tables") && !has("xtables-save");
  return rules;
}

void check_firewall(Findings& findings) {
  constexpr const char* kRemedy =
      "UDP 4791 (uroce, Soft-RoCE) and TCP 18515 must pass, e.g.: nft insert rule inet filter input udp dport 4791 "
      "accept; a card's packets do not go through the host's firewall";
  if (::geteuid() != 0) return findings.note("firewall: only root sees its rules (nft list ruleset)", kRemedy);
  const Output rules = output_of("nft list ruleset"), v4 = legacy_rules("ip"), v6 = legacy_rules("ip6");
  const auto drops = [](const Output& some) { return some.worked && has_rule_that_drops(some.text); };
  if (drops(rules) || drops(v4) || drops(v6) || drops(output_of("iptables-save"))) {
    return findings.note("firewall: there are rules that drop packets", kRemedy);
  }
  if (!rules.worked) {
    return findings.note(fmt::format("firewall: could not look, `nft list ruleset` fails: {}",
                                     rules.text.substr(0, rules.text.find('\n'))),
                         std::string("install nftables, or take CAP_NET_ADMIN, and look again; ") + kRemedy);
  }
  if (!v4.worked || !v6.worked) {
    return findings.note(
        fmt::format("firewall: could not look, {} has tables of iptables-legacy, which nft does not list",
                    tables_file(v4.worked ? "ip6" : "ip")),
        std::string("install iptables, whose iptables-legacy-save lists them, and look again; ") + kRemedy);
  }
  findings.good("firewall: no rule drops packets");
}

void check_tool_port(Findings& findings) {
  const Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kToolPort);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    return findings.good("TCP port 18515: free");
  }
  findings.note("TCP port 18515: in use",
                "another server runs; end it, or give both sides -p (" + server_name() + " --port) another");
}

/// Commands for both ends on this host, one pair a line each. `runs`: whether `uroce run` works.
void print_commands(const RdmaPort& port, bool machine, bool runs) {
  const auto best = best_gid(port);
  const std::string device = machine ? " -d " + port.device : "";
  const std::string prefix = machine ? "" : "uroce run -- ";
  const std::string peer = machine && best->gid.is_v4() ? proto::to_string(best->gid) : "127.0.0.1";
  const std::string pair = fmt::format("{}ibv_rc_pingpong{} -g {}", prefix, device, best->index);
  const std::string own = machine ? fmt::format(" --backend ibverbs --device {} --ib-port {} --gid-index {}",
                                                port.device, port.number, best->index)
                                  : "";
  print_to(stdout, "  server: {}{}\n  client: {} {}{}\n", server_name(), own, client_name(), peer, own);
  if (machine || runs) print_to(stdout, "  server: {}\n  client: {} {}\n", pair, pair, peer);
}

/// Prints all devices below `sys`; `here`: those of this machine. The ports that a program can use.
std::vector<RdmaPort> show_tree(const RdmaTree& tree, const std::string& sys, bool here, Findings& findings) {
  const bool none = tree.ports.empty() && tree.portless.empty();
  print_to(stdout, "RDMA devices of {}{}\n", here ? "this machine" : sys, none && tree.wrong.empty() ? ": none" : "");
  std::vector<RdmaPort> usable;
  for (const RdmaPort& port : tree.ports) {
    if (show(port, findings)) usable.push_back(port);
  }
  for (const auto& [device, why] : tree.portless) {
    findings.bad(fmt::format("{}: no port ({})", device, why),
                 here ? "dmesg shows what its driver says" : "copy what the links lead to as well: cp -rL, tar -h");
  }
  if (!tree.wrong.empty()) {
    // uroce needs none of it.
    here ? findings.note(tree.wrong, "mount /sys, and let this user read it")
         : findings.bad(tree.wrong, "name a copy of /sys that has class/infiniband, and that you may read");
  } else if (none) {
    findings.note(
        sys + "/class/infiniband has no device",
        "a card: its driver; without a card: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0 (root), or "
        "uroce");
  }
  return usable;
}

/// What of this machine could be in the way.
void check_machine(bool has_devices, Findings& findings) {
  print_to(stdout, "\nThe rest\n");
  check_modules(has_devices, findings);
  check_locked_memory(has_devices, findings);
  check_firewall(findings);
  check_tool_port(findings);
}

}  // namespace

int diagnose(const std::string& sys) {
  Findings findings;
  const bool here = sys == kOwnSys;
  const RdmaTree tree = read_rdma_tree(sys);
  const std::vector<RdmaPort> usable = show_tree(tree, sys, here, findings);
  if (!here && !tree.wrong.empty()) return 1;
  print_to(stdout, "\nuroce's devices, for `uroce run` and our tools\n");
  std::vector<RdmaPort> emulated;
  const std::vector<RdmaPort> ours = uroce_ports();
  for (const RdmaPort& port : ours) {
    if (show(port, findings)) emulated.push_back(port);
  }
  if (ours.empty()) findings.bad("uroce: no NIC can be opened", "uroce doctor says why");
  const auto refused = refused_path(library_path());
  if (refused) findings.bad("uroce run: " + *refused, kAnotherFolder);
  if (here) check_machine(!tree.ports.empty(), findings);
  if (usable.empty() && emulated.empty()) {
    print_to(stdout, "\nNo RDMA device can be used here.\n");
    return 1;
  }
  print_to(stdout, "\nCommands that work {} (from another host: its way to this one instead of the address)\n",
           here ? "here" : "with these devices");
  for (const RdmaPort& port : usable) print_commands(port, true, !refused);
  if (!emulated.empty()) print_commands(emulated.front(), false, !refused);
  print_to(stdout,
           "\nThe GID index is the most common mistake: both sides need one of the same type. More: "
           "docs/troubleshooting.md\n");
  return 0;
}

}  // namespace uroce::tools
