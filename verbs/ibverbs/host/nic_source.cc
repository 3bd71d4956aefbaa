// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/nic_source.h"

#include <net/if.h>

#include <array>
#include <string>
#include <vector>

#include "proto/base/made_once.h"
#include "proto/base/no_cancellation.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/host/device.h"
#include "verbs/ibverbs/host/published_qps.h"

namespace uroce::ibv {
namespace {

/// The name of a network interface; empty for 0, and when it is gone.
std::string interface_of_number(std::uint32_t number) {
  std::array<char, IF_NAMESIZE> name{};
  return ::if_indextoname(number, name.data()) != nullptr ? name.data() : "";
}

/// What asks it is no place where a thread is cancelled.
class ProcessSource : public view::NicSource {
 public:
  std::uint32_t count() const override {
    const NoCancellation whole;
    const auto all = devices();
    return all.ok() ? static_cast<std::uint32_t>((*all)->size()) : 0;
  }

  view::NicView nic(std::uint32_t index) const override {
    const NoCancellation whole;
    Device& device = *(*devices())->at(index);
    view::NicView view;
    view.index = index;
    view.name = device.name;
    view.verbs_name = device.dev_name;
    view.firmware = firmware_version();
    view.gids = device.gids();
    view.guid = device.guid();
    if (device_table().lids) view.lid = lid_of(main_address(view.gids));
    view.port_capabilities = kPortCapabilities;
    const PortView port = device.port_view();
    view.port_up = port.up;
    view.link_downed = port.counters.link_downed;
    view.counters = port.counters.nic;
    view.wire = port.counters.wire;
    return view;
  }

  std::vector<view::InterfaceView> interfaces(std::uint32_t index) const override {
    const NoCancellation whole;
    std::vector<view::InterfaceView> views;
    for (const std::uint32_t number : interfaces_of((*devices())->at(index)->gids())) {
      views.push_back({number, interface_of_number(number)});
    }
    return views;
  }

  std::vector<view::QpView> qps(std::uint32_t index) const override {
    const NoCancellation whole;
    const Device& device = *(*devices())->at(index);
    return published_qps(counters_name(index, device.addresses));
  }
};

}  // namespace

const view::NicSource& nic_source() {
  static constinit std::atomic<ProcessSource*> source = nullptr;
  return made_once(source);
}

}  // namespace uroce::ibv
