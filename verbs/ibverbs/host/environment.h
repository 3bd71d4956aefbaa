// SPDX-License-Identifier: Apache-2.0
// What the values of the settings mean (settings.def has the list). An empty value is that of a variable that is not
// set. Errors are sentences for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/port/open_port.h"
#include "proto/base/result.h"
#include "proto/path.h"
#include "verbs/ibverbs/host/address.h"

namespace uroce::ibv {

inline constexpr std::uint32_t kMaxDevices = 64;

/// Addresses of each NIC; empty = automatic.
using AddressPlan = std::vector<std::vector<proto::Gid>>;

/// The NICs that UROCE_DEVICES and UROCE_ADDR ask for. An interface's name stands for the addresses that it has now.
Result<AddressPlan, std::string> plan_addresses(const std::string& devices, const std::string& addresses);

/// UROCE_BROKER: whether other processes may use the addresses that UROCE_ADDR names.
Result<bool, std::string> sharing_wanted(const std::string& value);

/// UROCE_ENGINE and UROCE_OFFLOAD.
Result<engine::EngineChoice, std::string> choose_engine(const std::string& engine, const std::string& offload);

/// How packets get to NICs of this user on this host.
enum class Wire : std::uint8_t {
  kUdp,
  kShm,   ///< Through shared memory; an error where this process can't.
  kAuto,  ///< The same, by UDP where it can't.
};
/// UROCE_WIRE.
Result<Wire, std::string> choose_wire(const std::string& value);

/// The vendor of a device, as ibv_query_device says: an IEEE vendor ID, and the vendor's number of the model.
struct VendorId {
  std::uint32_t vendor = 0x027572;  ///< Locally administered: nobody's.
  std::uint32_t part = 1;
};
/// UROCE_VENDOR: two numbers, hexadecimal with 0x.
Result<VendorId, std::string> vendor_id(const std::string& value);

/// UROCE_LID: whether the port has a LID, by which programs without GIDs reach it (address.h).
Result<bool, std::string> lids_wanted(const std::string& value);

/// UROCE_GID0: what the GID table begins with.
Result<FirstGid, std::string> first_gid_wanted(const std::string& value);

/// UROCE_CONTROL: whether the process takes commands (control/server.h).
Result<bool, std::string> control_wanted(const std::string& value);

/// UROCE_REFUSALS: explain_refusals().
Result<bool, std::string> refusals_wanted(const std::string& value);

/// UROCE_STRICT: NicConfig::strict.
Result<bool, std::string> strictness(const std::string& value);

/// What is wrong with the value of UROCE_FAULTS, or "".
std::string check_faults(const std::string& faults);

}  // namespace uroce::ibv
