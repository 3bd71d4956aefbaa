// SPDX-License-Identifier: Apache-2.0
// What ibv_devices, ibv_devinfo and show_gids tell, in one place and about our devices only.
#include <endian.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "proto/address.h"
#include "tools/output/print.h"
#include "tools/uroce/commands.h"
#include "verbs/ibverbs/catalogue/verbs_table.h"
#include "verbs/ibverbs/host/facts.h"

namespace uroce::tools {
namespace {

const ibv::VerbsTable& verbs() { return ibv::uroce_verbs(); }

int complain(const char* what) {
  const std::string why = ibv::last_error();
  print_to(stderr, "uroce: {}: {}\n", what, why.empty() ? std::strerror(errno) : why);
  return 1;
}

/// Calls `visit` with every device of the list. The exit status is that of the first that does not return 0.
int for_each_device(const std::function<int(struct ibv_device*)>& visit) {
  int count = 0;
  struct ibv_device** const list = verbs().ibv_get_device_list(&count);
  if (list == nullptr) return complain("no devices");
  int status = 0;
  for (int i = 0; i < count && status == 0; ++i) status = visit(list[i]);
  verbs().ibv_free_device_list(list);
  return status;
}

int for_each_context(const std::function<void(struct ibv_context*)>& visit) {
  return for_each_device([&](struct ibv_device* device) {
    struct ibv_context* const context = verbs().ibv_open_device(device);
    if (context == nullptr) return complain(verbs().ibv_get_device_name(device));
    visit(context);
    verbs().ibv_close_device(context);
    return 0;
  });
}

std::string guid_text(__be64 guid) {
  const std::uint64_t value = be64toh(guid);
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", value >> 48, (value >> 32) & 0xFFFF, (value >> 16) & 0xFFFF,
                     value & 0xFFFF);
}

int mtu_bytes(enum ibv_mtu mtu) { return 128 << mtu; }

void print_info(struct ibv_context* context) {
  struct ibv_device_attr device {};
  struct ibv_port_attr port {};
  verbs().ibv_query_device(context, &device);
  // The table's function fills the older, shorter struct, which is the beginning of this one.
  verbs().ibv_query_port(context, 1, reinterpret_cast<struct _compat_ibv_port_attr*>(&port));
  const auto facts = ibv::nic_facts(context);
  print_to(stdout, "{}\n", verbs().ibv_get_device_name(context->device));
  const auto line = [](const char* name, const auto& value) { print_to(stdout, "  {:<16}{}\n", name, value); };
  line("version", device.fw_ver);
  line("node GUID", guid_text(device.node_guid));
  if (facts) {
    line("addresses", fmt::format("{}", fmt::join(facts->addresses, ", ")));
    line("engine", fmt::format("{} ({})", facts->port.engine, facts->port.reason));
    line("features", facts->port.features);
    line("receive buffer", fmt::format("{} bytes", facts->port.receive_buffer_bytes));
  }
  line("port 1", fmt::format("{}, path MTU {} of at most {}", verbs().ibv_port_state_str(port.state),
                             mtu_bytes(port.active_mtu), mtu_bytes(port.max_mtu)));
  line("at most", fmt::format("{} QPs of {} WRs and {} SGEs, {} CQs of {} CQEs, {} MRs, {} outstanding READs per QP",
                              device.max_qp, device.max_qp_wr, device.max_sge, device.max_cq, device.max_cqe,
                              device.max_mr, device.max_qp_rd_atom));
}

void print_gids(struct ibv_context* context) {
  struct ibv_port_attr port {};
  verbs().ibv_query_port(context, 1, reinterpret_cast<struct _compat_ibv_port_attr*>(&port));
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    union ibv_gid raw {};
    if (verbs().ibv_query_gid(context, 1, index, &raw) != 0) continue;
    proto::Gid gid;
    std::memcpy(gid.raw.data(), raw.raw, gid.raw.size());
    if (gid.is_zero()) continue;
    std::string words;
    for (std::size_t i = 0; i < gid.raw.size(); i += 2) {
      words += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.raw[i], gid.raw[i + 1]);
    }
    print_to(stdout, "{:<8} {:<5} {:<6} {:<40} {:<16} {}\n", verbs().ibv_get_device_name(context->device), 1, index,
             words, gid.is_v4() ? proto::to_string(gid) : "", "v2");
  }
}

}  // namespace

int show_devices() {
  print_to(stdout, "{:<8} {}\n", "device", "node GUID");
  return for_each_device([](struct ibv_device* device) {
    print_to(stdout, "{:<8} {}\n", verbs().ibv_get_device_name(device), guid_text(verbs().ibv_get_device_guid(device)));
    return 0;
  });
}

int show_info() { return for_each_context(print_info); }

int show_gids() {
  print_to(stdout, "{:<8} {:<5} {:<6} {:<40} {:<16} {}\n", "DEV", "PORT", "INDEX", "GID", "IPv4", "VER");
  return for_each_context(print_gids);
}

}  // namespace uroce::tools
