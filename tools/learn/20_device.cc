// Lesson 20: what is there. Devices, ports, and the GID table, whose index every later lesson needs.
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

const char* name_of(std::uint32_t gid_type) {
  switch (gid_type) {
    case IBV_GID_TYPE_IB:
      return "InfiniBand";
    case IBV_GID_TYPE_ROCE_V1:
      return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2:
      return "RoCE v2";
    default:
      return "?";
  }
}

/// A GID is 128 bits, written like an IPv6 address. IPv4 addresses stand in it as ::ffff:a.b.c.d.
const char* what_for(const ibv_gid& gid, std::uint32_t type) {
  static constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  if (type == IBV_GID_TYPE_ROCE_V1) return "EtherType 0x8915: not routed";
  if (std::memcmp(gid.raw, kMapped.data(), kMapped.size()) == 0) return "IPv4: take this one";
  if (gid.raw[0] == 0xFE && gid.raw[1] == 0x80) return "link-local: reaches this link only, IPv6";
  return "IPv6";
}

void show_gids(ibv_context* context, int count) {
  for (int i = 0; i < count; ++i) {
    ibv_gid_entry entry{};
    // Empty entries are normal: tables have 16, 128 or more places.
    if (ibv_query_gid_ex(context, 1, static_cast<std::uint32_t>(i), &entry, 0) != 0) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(AF_INET6, entry.gid.raw, text.data(), text.size());
    std::printf("  GID %d: %-26s %-8s %s\n", i, text.data(), name_of(entry.gid_type),
                what_for(entry.gid, entry.gid_type));
  }
}

int show_device(ibv_device* device) {
  // A context is an open device: everything else is made from it.
  ibv_context* context = ibv_open_device(device);
  if (context == nullptr) {
    std::perror("ibv_open_device");
    return 1;
  }
  ibv_device_attr attr{};
  ibv_query_device(context, &attr);
  std::printf("%s\n", ibv_get_device_name(device));
  std::printf("  at most %d QPs of %d work requests, %d CQs, %d MRs\n", attr.max_qp, attr.max_qp_wr, attr.max_cq,
              attr.max_mr);
  std::printf("  atomics: %s\n", attr.atomic_cap == IBV_ATOMIC_NONE ? "no" : "yes");

  // Ports are counted from 1.
  ibv_port_attr port{};
  ibv_query_port(context, 1, &port);
  std::printf("  port 1: %s, %s, MTU %d of at most %d\n", ibv_port_state_str(port.state),
              port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet (RoCE)" : "InfiniBand", 128 << port.active_mtu,
              128 << port.max_mtu);
  // On InfiniBand a subnet manager gives the port a LID; RoCE has none, so peers are addressed by GID alone.
  std::printf("  LID %u\n", port.lid);
  show_gids(context, port.gid_tbl_len);
  ibv_close_device(context);
  return 0;
}

}  // namespace

int main() {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  if (devices == nullptr || count == 0) {
    std::fprintf(stderr, "no RDMA device; on an emulated one: uroce run -- 20_device\n");
    return 1;
  }
  int status = 0;
  for (int i = 0; i < count; ++i) status |= show_device(devices[i]);
  ibv_free_device_list(devices);
  return status;
}
