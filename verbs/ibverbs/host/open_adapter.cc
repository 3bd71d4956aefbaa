// SPDX-License-Identifier: Apache-2.0
// How a NIC is opened: the settings are read, and the port, the capture and the recorder made, before there is an
// Adapter.
#include <cerrno>

#include "engine/broker/start_broker.h"
#include "engine/port/open_port.h"
#include "engine/shm/shm_port.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/settings.h"
#include "verbs/ibverbs/hooks/faults_wanted.h"
#include "verbs/ibverbs/host/adapter.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/host/capture.h"
#include "verbs/ibverbs/host/device.h"
#include "verbs/ibverbs/host/environment.h"
#include "verbs/ibverbs/host/seed.h"

namespace uroce::ibv {
namespace {

nic::NicConfig config_for(const std::vector<proto::Gid>& addresses) {
  nic::NicConfig config;
  config.ack_timeout_floor = nic::kAckTimeoutFloor;
  config.gids = gid_table(addresses, device_table().first_gid);
  config.mtu_max = largest_path_mtu(addresses);
  return config;
}

/// Of peers' receive buffers we know only what our own sockets got; for a peer on this host that is a good guess.
void choose_windows(nic::NicConfig& config, engine::EngineChoice engine, Wire wire, std::uint32_t receive_buffer) {
  const bool is_wide = wire != Wire::kUdp && receive_buffer >= 4 * nic::kTrainWindowBytes;  // Rings have room for it.
  if (engine == engine::EngineChoice::kGso || is_wide) config.window_bytes = nic::kTrainWindowBytes;
  const std::uint64_t share = receive_buffer / 4;
  if (share < nic::kUnackedWindowBytes) return;
  config.host_window_bytes = nic::kUnackedWindowBytes;
  if (wire != Wire::kUdp) return;  // Rings have no room for more.
  config.host_window_bytes = std::min(share, nic::kHostWindowBytes);
  config.crowded_bytes = std::min(share - config.host_window_bytes, nic::kCrowdedBytes);
}

/// A port, and the slot that it receives for: without leases when it has its addresses alone.
struct OpenPort {
  engine::SlotLeases slot;
  std::unique_ptr<engine::Port> port;
};

Result<OpenPort, engine::SetupError> open_alone(const std::vector<proto::Gid>& addresses, engine::EngineChoice choice) {
  auto port = engine::open_port(addresses, choice);
  if (!port) return Err{port.error()};
  return OpenPort{.slot = {}, .port = std::move(*port)};
}

/// On addresses that others may use too. Where no broker can be had, they have to be free.
Result<OpenPort, engine::SetupError> open_shared(const std::vector<proto::Gid>& addresses,
                                                 engine::EngineChoice choice) {
  std::string why_not = "there is no uroce-broker beside this library that this user may run";
  if (const auto broker = engine::find_broker()) {
    auto slot = engine::acquire_slot(addresses, *broker);
    if (slot) {
      std::vector<engine::ReceiveSocket> sockets;
      for (const auto& lease : slot->leases) sockets.push_back(lease->take_socket());
      auto port = engine::open_port_on(std::move(sockets), choice);
      if (!port) return Err{port.error()};
      return OpenPort{.slot = std::move(*slot), .port = std::move(*port)};
    }
    if (slot.error().error != ECHILD && slot.error().error != EPROTONOSUPPORT) return Err{slot.error()};
    why_not = slot.error().sentence;
  }
  auto alone = open_alone(addresses, choice);
  if (alone || alone.error().error != EADDRINUSE) return alone;
  return Err{engine::SetupError{EADDRINUSE, alone.error().sentence + " (it can't be shared: " + why_not + ')'}};
}

/// The port with the wire that was asked for.
Result<std::unique_ptr<engine::Port>, engine::SetupError> with_wire(std::unique_ptr<engine::Port> udp,
                                                                    std::uint8_t slot,
                                                                    const std::vector<proto::Gid>& addresses,
                                                                    Wire wire) {
  if (wire == Wire::kUdp) return udp;
  auto port = engine::ShmPort::open(udp, addresses, slot);
  if (port) return std::unique_ptr<engine::Port>(std::move(*port));
  if (wire == Wire::kAuto) return udp;
  return Err{engine::SetupError{port.error().error, "UROCE_WIRE=shm is impossible here: " + port.error().sentence +
                                                        "; with UROCE_WIRE=auto all packets go by UDP"}};
}

}  // namespace

Result<std::shared_ptr<Adapter>, int> Adapter::make(std::uint32_t index, const std::vector<proto::Gid>& addresses,
                                                    engine::Sharing sharing,
                                                    const std::optional<std::array<std::uint8_t, 8>>& guid) {
  const auto shared = sharing_wanted(setting(Setting::kBroker));
  if (!shared.ok()) return Err{refuse_setting(EINVAL, shared.error())};
  const auto choice = choose_engine(setting(Setting::kEngine), setting(Setting::kOffload));
  if (!choice) return Err{refuse_setting(EINVAL, choice.error())};
  const auto wire = choose_wire(setting(Setting::kWire));
  if (!wire.ok()) return Err{refuse_setting(EINVAL, wire.error())};
  const auto strict = strictness(setting(Setting::kStrict));
  if (!strict.ok()) return Err{refuse_setting(EINVAL, strict.error())};
  const auto faults = engine::faults::parse_faults(faults_wanted());
  if (!faults) return Err{refuse_setting(EINVAL, "UROCE_FAULTS: " + faults.error())};
  const auto seed = parse_seed(setting(Setting::kSeed));
  if (!seed) return Err{refuse_setting(EINVAL, seed.error())};
  const bool alone = sharing == engine::Sharing::kNone || !*shared;
  auto opened = alone ? open_alone(addresses, *choice) : open_shared(addresses, *choice);
  if (!opened.ok()) return Err{refuse(opened.error().error, opened.error().sentence)};
  engine::SlotLeases slot = std::move(opened->slot);
  auto wired = with_wire(std::move(opened->port), slot.slot, addresses, *wire);
  if (!wired.ok()) return Err{refuse(wired.error().error, wired.error().sentence)};
  std::unique_ptr<engine::Port> top = std::move(*wired);
  engine::CaptureTap* tap = nullptr;
  std::string pcap = setting(Setting::kPcap);
  if (!pcap.empty()) {
    auto writer = open_capture(pcap, index);
    if (!writer.ok()) return Err{refuse_setting(EINVAL, "UROCE_PCAP: " + writer.error())};
    pcap = writer->path();
    auto captured = std::make_unique<engine::CaptureTap>(
        std::move(top), std::move(*writer),
        [](const std::string& error) { warn(error + "; packets from here on are not captured"); });
    tap = captured.get();
    top = std::move(captured);
  }
  nic::NicConfig config = config_for(addresses);
  config.strict = *strict;
  choose_windows(config, *choice, *wire, top->info().receive_buffer_bytes);
  choose_numbers(config, *seed, index);
  if (!slot.leases.empty()) {
    config.qpn_slot = slot.slot;
    if (!*seed) config.first_local_qpn = slot.first_local;
  }
  const std::string name =
      counters_name(index, sharing == engine::Sharing::kNone ? std::vector<proto::Gid>{} : addresses);
  auto recorder = FlightRecorder::make(index, addresses.front(), setting(Setting::kRecord));
  if (!recorder.ok()) return Err{refuse_setting(EINVAL, recorder.error())};
  const auto known_as = guid ? *guid : guid_of(main_address(config.gids));
  std::shared_ptr<Adapter> adapter(new Adapter(index, known_as, std::move(config), *faults, std::move(top), tap,
                                               std::move(pcap), std::move(slot), name, std::move(*recorder)));
  adapter->watch(addresses);
  return adapter;
}

}  // namespace uroce::ibv
