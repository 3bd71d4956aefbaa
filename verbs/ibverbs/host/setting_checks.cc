// SPDX-License-Identifier: Apache-2.0
// What the values of settings have to be, and the table that has it all.
#include <sys/stat.h>

#include "verbs/ibverbs/catalogue/settings.h"
#include "verbs/ibverbs/host/capture.h"
#include "verbs/ibverbs/host/environment.h"
#include "verbs/ibverbs/host/seed.h"

namespace uroce::ibv {
namespace {

/// What a parser found wrong, or "".
template <class T>
std::string complaint(const Result<T, std::string>& parsed) {
  return parsed.ok() ? "" : parsed.error();
}

// The checks that settings.def names.

/// It is made when a NIC is opened.
std::string check_capture(const std::string& value) {
  const std::string wrong = capture_complaint(value);
  return wrong.empty() ? "" : "UROCE_PCAP: " + wrong;
}

/// It is made when a NIC is opened, if need be.
std::string check_directory(const std::string& value) {
  struct stat facts {};
  if (value.empty() || ::stat(value.c_str(), &facts) != 0 || S_ISDIR(facts.st_mode)) return "";
  return "UROCE_RECORD must be a directory, and " + value + " is none";
}

std::string check_addresses(const std::string& value) { return complaint(plan_addresses("", value)); }
std::string check_devices(const std::string& value) {
  return complaint(plan_addresses(value, setting(Setting::kAddr)));
}
std::string check_broker(const std::string& value) { return complaint(sharing_wanted(value)); }
std::string check_engine(const std::string& value) { return complaint(choose_engine(value, "")); }
std::string check_offload(const std::string& value) {
  return complaint(choose_engine(setting(Setting::kEngine), value));
}
std::string check_wire(const std::string& value) { return complaint(choose_wire(value)); }
std::string check_fault_list(const std::string& value) { return check_faults(value); }

std::string check_seed(const std::string& value) { return complaint(parse_seed(value)); }
std::string check_control(const std::string& value) { return complaint(control_wanted(value)); }
std::string check_refusals(const std::string& value) { return complaint(refusals_wanted(value)); }
std::string check_lid(const std::string& value) { return complaint(lids_wanted(value)); }
std::string check_gid0(const std::string& value) { return complaint(first_gid_wanted(value)); }
std::string check_strict(const std::string& value) { return complaint(strictness(value)); }
std::string check_vendor(const std::string& value) { return complaint(vendor_id(value)); }
std::string check_backend(const std::string& value) {
  if (value.empty() || value == "uroce" || value == "ibverbs") return "";
  return "UROCE_BACKEND must be uroce or ibverbs, not '" + value + "'";
}

}  // namespace

const SettingTable& settings() {
  static constexpr SettingTable kTable{{
#define UROCE_SETTING(id, name, option, value, fallback, meaning, more, check) \
  {name, option, value, fallback, meaning, more, check},
#include "verbs/ibverbs/catalogue/settings.def"
#undef UROCE_SETTING
  }};
  return kTable;
}

}  // namespace uroce::ibv
