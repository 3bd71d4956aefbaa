// SPDX-License-Identifier: Apache-2.0
// Device, protection domain, completion queue, memory: what all QPs share.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "tools/rdma/connections.h"
#include "tools/rdma/diagnosis.h"
#include "tools/rdma/failure.h"
#include "tools/rdma/rdma.h"
#include "tools/rdma/steps.h"
#include "tools/rdma/trace.h"

namespace uroce::tools {
namespace {

std::string gid_text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

bool is_zero(const ibv_gid& gid) {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](std::uint8_t byte) { return byte == 0; });
}

/// Finds the device `name` in `devices` (the first one if `name` is empty).
ibv_device* find_device(ibv_device** devices, int count, const std::string& name) {
  std::string names;
  for (int i = 0; i < count; ++i) {
    const char* device_name = ibv_get_device_name(devices[i]);
    if (name.empty() || name == device_name) return devices[i];
    names += (names.empty() ? "" : ", ") + std::string(device_name);
  }
  const bool number = std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  throw Failure(kExitUsage, fmt::format("there is no device '{}'{}; this machine has: {}", name,
                                        number ? " (the arguments are: device port gid-index num-qp)" : "", names));
}

ibv_context* open_context(const std::string& name) {
  int count = 0;
  errno = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  if (devices == nullptr || count == 0) {
    const int error = errno;
    if (devices != nullptr) ibv_free_device_list(devices);
    throw Failure(kExitUsage, no_device_sentence(error));
  }
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(devices,
                                                                  [](ibv_device** d) { ibv_free_device_list(d); });
  std::string names;
  for (int i = 0; i < count; ++i) names += (names.empty() ? "" : ", ") + std::string(ibv_get_device_name(devices[i]));
  trace_step(Step::kDeviceList, names);
  ibv_device* device = find_device(devices, count, name);
  const std::string device_name = ibv_get_device_name(device);
  ibv_context* context = ibv_open_device(device);
  if (context == nullptr) refuse("can't open device " + device_name, errno);
  trace_step(Step::kDevice, device_name, backend_in_use());
  return context;
}

/// Reads the chosen entry of the GID table, which must hold an address.
void query_gid(RdmaResources& r) {
  const char* device = ibv_get_device_name(r.context->device);
  std::string usable;
  for (int i = 0; i < r.port.gid_tbl_len && i < 64; ++i) {
    ibv_gid gid{};
    if (ibv_query_gid(r.context, r.choice.ib_port, i, &gid) != 0 || is_zero(gid)) continue;
    usable += fmt::format("{}{} = {}", usable.empty() ? "" : ", ", i, gid_text(gid));
  }
  const bool in_table = r.choice.gid_index >= 0 && r.choice.gid_index < r.port.gid_tbl_len;
  if (!in_table || ibv_query_gid(r.context, r.choice.ib_port, r.choice.gid_index, &r.gid) != 0 || is_zero(r.gid)) {
    throw Failure(kExitUsage, fmt::format("GID index {} of {} holds no address; usable: {}", r.choice.gid_index, device,
                                          usable.empty() ? "none" : usable));
  }
  trace_step(Step::kGid, r.choice.gid_index, gid_text(r.gid));
}

void allocate_buffer(RdmaResources& r, std::size_t bytes) {
  // From the kernel directly: zeroed, page-aligned, and pages that are never touched cost nothing.
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) refuse(fmt::format("can't allocate {} bytes of memory", bytes), errno);
  r.buffer = static_cast<std::uint8_t*>(memory);
  r.buffer_bytes = bytes;
}

}  // namespace

RdmaOwner open_device(const DeviceChoice& choice) {
  RdmaOwner owner(new RdmaResources);
  RdmaResources& r = *owner;
  r.choice = choice;
  r.context = open_context(choice.name);
  if (const int error = ibv_query_device(r.context, &r.device)) refuse("can't query the device", error);
  if (choice.ib_port < 1 || choice.ib_port > r.device.phys_port_cnt) {
    throw Failure(kExitUsage, fmt::format("{} has no port {}; its ports: 1..{}", ibv_get_device_name(r.context->device),
                                          choice.ib_port, r.device.phys_port_cnt));
  }
  if (const int error = ibv_query_port(r.context, choice.ib_port, &r.port)) refuse("can't query the port", error);
  trace_step(Step::kPort, choice.ib_port, ibv_port_state_str(r.port.state), 128 << r.port.active_mtu);
  if (r.port.state != IBV_PORT_ACTIVE) {
    throw Failure(kExitUsage, fmt::format("port {} of {} is not active ({})", choice.ib_port,
                                          ibv_get_device_name(r.context->device), ibv_port_state_str(r.port.state)));
  }
  query_gid(r);
  return owner;
}

void init_resources(RdmaResources& r, const ResourceSizes& sizes) {
  r.pd = ibv_alloc_pd(r.context);
  if (r.pd == nullptr) refuse("can't allocate a protection domain", errno);
  trace_step(Step::kPd);

  if (sizes.events) {
    r.channel = ibv_create_comp_channel(r.context);
    if (r.channel == nullptr) refuse("can't create a completion channel", errno);
    trace("ibv_create_comp_channel: fd {}", r.channel->fd);
  }
  r.cq = ibv_create_cq(r.context, static_cast<int>(sizes.completions), nullptr, r.channel, 0);
  if (r.cq == nullptr) refuse(fmt::format("can't create a completion queue of {} entries", sizes.completions), errno);
  trace_step(Step::kCq, r.cq->cqe);

  allocate_buffer(r, sizes.buffer_bytes);
  const int access =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  r.mr = ibv_reg_mr(r.pd, r.buffer, r.buffer_bytes, access);
  if (r.mr == nullptr) refuse(fmt::format("can't register {} bytes of memory", r.buffer_bytes), errno);
  trace_step(Step::kMr, r.buffer_bytes, r.mr->lkey, r.mr->rkey);
}

void cleanup(RdmaResources& r) {
  // Errors are of no use here: the process lets go in any case, and the kernel or the NIC takes back what remains.
  disconnect_qps(r);
  for (ibv_qp* qp : r.qps) ibv_destroy_qp(qp);
  r.qps.clear();
  if (r.mr != nullptr) ibv_dereg_mr(r.mr);
  if (r.buffer != nullptr) munmap(r.buffer, r.buffer_bytes);
  if (r.cq != nullptr) ibv_destroy_cq(r.cq);
  if (r.channel != nullptr) ibv_destroy_comp_channel(r.channel);
  if (r.pd != nullptr) ibv_dealloc_pd(r.pd);
  if (r.cq != nullptr) trace_step(Step::kCleanUp);
  r.mr = nullptr;
  r.traced_sends = r.traced_completions = 0;
  r.buffer = nullptr;
  r.cq = nullptr;
  r.channel = nullptr;
  r.pd = nullptr;
}

void close_device(RdmaResources& r) {
  cleanup(r);
  if (r.context == nullptr) return;
  ibv_close_device(r.context);
  r.context = nullptr;
  trace_words("device closed", "设备已关闭");
}

}  // namespace uroce::tools
