#include "verbs/ibverbs/adapter.h"

#include <cerrno>
#include <cstdlib>

#include "engine/capture_tap.h"
#include "engine/open_port.h"
#include "proto/address.h"
#include "verbs/ibverbs/address.h"
#include "verbs/ibverbs/environment.h"
#include "verbs/ibverbs/errors.h"

namespace uroce::ibv {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<engine::EngineChoice> parse_engine(const std::string& text) {
  if (text.empty() || text == "auto") return engine::EngineChoice::kAuto;
  if (text == "io_uring") return engine::EngineChoice::kIoUring;
  if (text == "socket") return engine::EngineChoice::kSocket;
  return std::nullopt;
}

nic::NicConfig config_for(const std::vector<proto::Gid>& addresses) {
  nic::NicConfig config;
  config.gids.push_back(link_local_gid(guid_of(addresses.front())));
  config.gids.insert(config.gids.end(), addresses.begin(), addresses.end());
  for (const proto::Gid& address : addresses) {
    const auto mtu = interface_mtu(address);
    if (mtu) config.mtu_max = std::min(config.mtu_max, path_mtu_for(*mtu));
  }
  return config;
}

}  // namespace

Result<std::shared_ptr<Adapter>, int> Adapter::make(std::uint32_t index, const std::vector<proto::Gid>& addresses) {
  const std::string engine_name = environment("UROCE_ENGINE");
  const auto choice = parse_engine(engine_name);
  if (!choice) {
    return Err{refuse(EINVAL, "UROCE_ENGINE must be auto, io_uring or socket, not '" + engine_name + "'")};
  }
  const auto faults = engine::faults::parse_faults(environment("UROCE_FAULTS"));
  if (!faults) return Err{refuse(EINVAL, "UROCE_FAULTS: " + faults.error())};
  auto port = engine::open_port(addresses, *choice);
  if (!port.ok()) return Err{refuse(port.error().error, port.error().sentence)};
  std::unique_ptr<engine::Port> top = std::move(*port);
  const std::string pcap = capture_file(environment("UROCE_PCAP"), index);
  if (!pcap.empty()) {
    auto writer = proto::PcapWriter::create(pcap);
    if (!writer.ok()) return Err{refuse(EINVAL, "UROCE_PCAP: " + writer.error())};
    top = std::make_unique<engine::CaptureTap>(std::move(top), std::move(*writer));
  }
  return std::shared_ptr<Adapter>(new Adapter(config_for(addresses), *faults, std::move(top), pcap));
}

Adapter::Adapter(nic::NicConfig config, const engine::faults::FaultSpec& faults, std::unique_ptr<engine::Port> port,
                 std::string pcap)
    : guid_(guid_of(config.gids.at(1))),
      pcap_(std::move(pcap)),
      nic_(std::move(config)),
      wire_(nic_, faults, engine::os_now()),
      runner_(wire_, std::move(port), [this] { deliver_events(nic_); }) {}

NicFacts Adapter::facts() {
  NicFacts facts;
  const auto& all = gids();
  for (std::size_t i = 1; i < all.size(); ++i) facts.addresses.push_back(proto::to_string(all[i]));
  facts.pcap = pcap_;
  if (const NicLock lock(*this); lock) {
    facts.port = lock.port().info();
    facts.port_counters = lock.port().counters();
    facts.counters = lock->counters();
    facts.faults = wire_.counters();
  }
  return facts;
}

void Adapter::after_fork_in_child() {
  abandoned_ = true;
  runner_.abandon_after_fork();
  fork_lock_.unlock();
}

NicLock::NicLock(Adapter& adapter) : adapter_(adapter) {
  if (!adapter.abandoned_) lock_ = adapter.runner_.lock();
}

NicLock::~NicLock() {
  if (lock_.owns_lock()) deliver_events(adapter_.nic_);
}

}  // namespace uroce::ibv
