// The environment variables that shape the emulated NICs.
//   UROCE_DEVICES=N          number of NICs, uroce0 .. uroceN-1 (default: as many as UROCE_ADDR names, or 1)
//   UROCE_ADDR=a,b;c         addresses: commas between those of one NIC, semicolons between NICs. A NIC without takes
//   the
//                            first free loopback address when it is opened.
//   UROCE_BROKER=auto|off    whether other processes may use addresses that UROCE_ADDR names too (engine/broker)
//   UROCE_ENGINE=auto|io_uring|socket
//   UROCE_OFFLOAD=gso        trains of packets by segmentation offload, see docs/performance.md; not with io_uring
//   UROCE_VENDOR=VENDOR:PART what ibv_query_device says who made it, for programs that go by that
//   UROCE_LID=on|off         whether the port has a LID, by which programs without GIDs reach it (address.h); default off
//   UROCE_PCAP=FILE          capture of everything uroce0 sends and receives; uroceN writes FILE with .uroceN in its
//   name
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/result.h"
#include "proto/path.h"

namespace uroce::ibv {

inline constexpr std::uint32_t kMaxDevices = 64;

/// Addresses of each NIC; empty = automatic.
using AddressPlan = std::vector<std::vector<proto::Gid>>;

/// Reads the values of UROCE_DEVICES and UROCE_ADDR (null = not set). The error is a sentence for people.
Result<AddressPlan, std::string> plan_addresses(const char* devices, const char* addresses);

/// Who made a device, as ibv_query_device says: an IEEE vendor ID, and the vendor's number of the model.
struct VendorId {
  std::uint32_t vendor = 0x027572;  ///< Locally administered: nobody's.
  std::uint32_t part = 1;
};
/// Reads the value of UROCE_VENDOR (null = not set): two numbers, hexadecimal with 0x. The error is a sentence for people.
Result<VendorId, std::string> vendor_id(const char* value);

/// Reads the value of UROCE_LID (null = not set): on or off. The error is a sentence for people.
Result<bool, std::string> lids_wanted(const char* value);

/// What is wrong with the value of UROCE_FAULTS (null = not set), or "".
std::string check_faults(const char* faults);

/// `file` with `mark` before its last suffix, or at the end when it has none.
std::string marked_file(const std::string& file, const std::string& mark);

/// File name for the capture of device `index`, given the value of UROCE_PCAP.
std::string capture_file(const std::string& value, std::uint32_t index);

}  // namespace uroce::ibv
