// SPDX-License-Identifier: Apache-2.0
#include "verbs/view/sysfs.h"

#include <algorithm>
#include <array>

#include "verbs/view/port_counters.h"

namespace uroce::view {
namespace {

constexpr const char* kDevices = "/sys/devices/virtual/uroce";
constexpr const char* kClass = "/sys/class/infiniband";
constexpr const char* kVerbsClass = "/sys/class/infiniband_verbs";
constexpr const char* kMadClass = "/sys/class/infiniband_mad";
constexpr const char* kDev = "/dev/infiniband";
constexpr const char* kCmClass = "/sys/class/misc/rdma_cm";

/// Device numbers of /dev/infiniband/uverbs0, uverbs1, ... (kernel: IB_UVERBS_MAJOR, IB_UVERBS_BASE_MINOR).
constexpr std::uint32_t kVerbsMajor = 231, kVerbsMinor = 192;

std::string hex(std::uint64_t value, int digits) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) text += kDigits[(value >> shift) & 0xF];
  return text;
}

std::string without_zeros(const std::string& digits) {
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1));
}

template <std::size_t N>
std::string hex_words(const std::array<std::uint8_t, N>& bytes) {
  std::string text;
  for (std::size_t i = 0; i < N; ++i) {
    if (i != 0 && i % 2 == 0) text += ':';
    text += hex(bytes[i], 2);
  }
  return text;
}

/// Adds the files of one NIC. What they say is asked for when they are opened.
class NicFiles {
 public:
  NicFiles(Tree& tree, const NicSource& source, std::uint32_t index)
      : tree_(tree), source_(source), index_(index), first_(source.nic(index)), interfaces_(source.interfaces(index)) {}

  void add() {
    device_ = std::string(kDevices) + '/' + first_.name;
    add_bus_device();
    add_rdma_device(device_ + "/infiniband/" + first_.name);
    add_port(device_ + "/infiniband/" + first_.name + "/ports/1");
    add_verbs_device(device_ + "/infiniband_verbs/" + first_.verbs_name);
    tree_.add_char_device(std::string(kDev) + '/' + first_.verbs_name, kVerbsMajor, kVerbsMinor + index_);
  }

 private:
  using Line = std::function<std::string(const NicView&)>;

  /// A file of one line, which `line` makes without its end.
  void file(const std::string& path, Line line) {
    tree_.add_file(
        path, [&source = source_, index = index_, line = std::move(line)] { return line(source.nic(index)) + '\n'; });
  }
  void constant(const std::string& path, std::string line) {
    line += '\n';
    tree_.add_file(path, [line = std::move(line)] { return line; });
  }

  /// What a network card would have on its bus.
  void add_bus_device() {
    constant(device_ + "/vendor", "0x7572");  // "ur"; nobody's
    constant(device_ + "/device", "0x0001");
    constant(device_ + "/subsystem_vendor", "0x7572");
    constant(device_ + "/subsystem_device", "0x0001");
    constant(device_ + "/class", "0x020000");  // an Ethernet controller
    constant(device_ + "/revision", "0x01");
    constant(device_ + "/numa_node", "-1");
    constant(device_ + "/current_link_speed", "16.0 GT/s PCIe");
    constant(device_ + "/current_link_width", "16");
    constant(device_ + "/max_link_speed", "16.0 GT/s PCIe");
    constant(device_ + "/max_link_width", "16");
    constant(device_ + "/uevent", "DRIVER=uroce");
    // All processors are equally near; the kernel has their masks of the machine.
    tree_.add_link(device_ + "/local_cpulist", "/sys/devices/system/cpu/possible");
    if (const std::string& name = interfaces_.front().name; !name.empty()) {
      tree_.add_link(device_ + "/net/" + name, "/sys/class/net/" + name);
    }
  }

  void add_rdma_device(const std::string& dir) {
    tree_.add_link(std::string(kClass) + '/' + first_.name,
                   "../../devices/virtual/uroce/" + first_.name + "/infiniband/" + first_.name);
    tree_.add_link(dir + "/device", "../..");
    tree_.add_link(dir + "/subsystem", "../../../../../../class/infiniband");
    constant(dir + "/uevent", "NAME=" + first_.name);
    constant(dir + "/node_type", "1: CA");
    constant(dir + "/node_desc", first_.name);
    constant(dir + "/hca_type", "uroce");
    constant(dir + "/board_id", "uroce");
    constant(dir + "/hw_rev", "1");
    constant(dir + "/fw_ver", first_.firmware);
    file(dir + "/node_guid", [](const NicView& nic) { return hex_words(nic.guid); });
    file(dir + "/sys_image_guid", [](const NicView& nic) { return hex_words(nic.guid); });
    if (const std::string& name = interfaces_.front().name; !name.empty()) constant(dir + "/parent", name);
  }

  void add_port(const std::string& dir) {
    file(dir + "/state", [](const NicView& nic) { return nic.port_up ? "4: ACTIVE" : "1: DOWN"; });
    file(dir + "/phys_state", [](const NicView& nic) { return nic.port_up ? "5: LinkUp" : "3: Disabled"; });
    file(dir + "/cap_mask", [](const NicView& nic) { return "0x" + hex(nic.port_capabilities, 8); });
    constant(dir + "/rate", "10 Gb/sec (1X QDR)");
    constant(dir + "/link_layer", "Ethernet");
    file(dir + "/lid", [](const NicView& nic) { return "0x" + without_zeros(hex(nic.lid, 4)); });
    constant(dir + "/lid_mask_count", "0");
    constant(dir + "/sm_lid", "0x0");
    constant(dir + "/sm_sl", "0");
    constant(dir + "/has_smi", "0");
    constant(dir + "/pkeys/0", "0xffff");
    for (std::size_t i = 0; i < first_.gids.size(); ++i) {
      const std::string number = std::to_string(i);
      file(dir + "/gids/" + number, [i](const NicView& nic) { return hex_words(nic.gids.at(i).raw); });
      constant(dir + "/gid_attrs/types/" + number, "RoCE v2");
      constant(dir + "/gid_attrs/ndevs/" + number, interfaces_.at(i).name);
    }
    add_counters(dir + "/hw_counters/", hw_counters());
    constant(dir + "/hw_counters/lifespan", std::to_string(kCounterLifespan.count()));
    add_counters(dir + "/counters/", port_counters());
  }

  void add_counters(const std::string& dir, std::span<const CounterRow> rows) {
    for (const CounterRow& row : rows) {
      file(dir + row.name, [value = row.value](const NicView& nic) { return std::to_string(value(nic)); });
    }
  }

  void add_verbs_device(const std::string& dir) {
    tree_.add_link(std::string(kVerbsClass) + '/' + first_.verbs_name,
                   "../../devices/virtual/uroce/" + first_.name + "/infiniband_verbs/" + first_.verbs_name);
    tree_.add_link(dir + "/device", "../..");
    tree_.add_link(dir + "/subsystem", "../../../../../../class/infiniband_verbs");
    constant(dir + "/abi_version", "1");
    constant(dir + "/ibdev", first_.name);
    const std::string major = std::to_string(kVerbsMajor), minor = std::to_string(kVerbsMinor + index_);
    constant(dir + "/dev", major + ':' + minor);
    constant(dir + "/uevent", "MAJOR=" + major + "\nMINOR=" + minor + "\nDEVNAME=infiniband/" + first_.verbs_name);
  }

  Tree& tree_;
  const NicSource& source_;
  std::uint32_t index_;
  NicView first_;                          ///< As it is now: names, and what never changes.
  std::vector<InterfaceView> interfaces_;  ///< The same, by GID.
  std::string device_;
};

/// The device of RDMA CM. The kernel gives its minor number at random, too.
void add_rdma_cm(Tree& tree) {
  constexpr std::uint32_t kMiscMajor = 10, kMinor = 121;
  const std::string dir = kCmClass, dev = std::to_string(kMiscMajor) + ':' + std::to_string(kMinor);
  tree.add_file(dir + "/abi_version", [] { return "4\n"; });
  tree.add_file(dir + "/dev", [dev] { return dev + '\n'; });
  tree.add_file(dir + "/uevent", [] {
    return "MAJOR=" + std::to_string(kMiscMajor) + "\nMINOR=" + std::to_string(kMinor) +
           "\nDEVNAME=infiniband/rdma_cm\nDEVMODE=0666\n";
  });
  tree.add_char_device(std::string(kRdmaCmDevice), kMiscMajor, kMinor);
}

}  // namespace

Tree make_sysfs(const NicSource& source) {
  Tree tree;
  for (const char* root : {kDevices, kClass, kVerbsClass, kMadClass, kCmClass, kDev}) tree.add_root(root);
  // Versions of the kernel's interface that libraries ask for before they look for devices.
  tree.add_file(std::string(kVerbsClass) + "/abi_version", [] { return "6\n"; });
  tree.add_file(std::string(kMadClass) + "/abi_version", [] { return "5\n"; });
  add_rdma_cm(tree);
  for (std::uint32_t i = 0; i < source.count(); ++i) NicFiles(tree, source, i).add();
  return tree;
}

}  // namespace uroce::view
