#include "verbs/ibverbs/settings.h"

#include <cstdlib>

#include "verbs/ibverbs/environment.h"
#include "verbs/ibverbs/seed.h"

namespace uroce::ibv {
namespace {

// The checks that settings.def names.

std::string check_anything(const std::string& /*value*/) { return ""; }

std::string check_addresses(const std::string& value) {
  const auto plan = plan_addresses("", value);
  return plan.ok() ? "" : plan.error();
}

std::string check_devices(const std::string& value) {
  const auto plan = plan_addresses(value, setting(Setting::kAddr));
  return plan.ok() ? "" : plan.error();
}

std::string check_broker(const std::string& value) {
  const auto wanted = sharing_wanted(value);
  return wanted.ok() ? "" : wanted.error();
}

std::string check_engine(const std::string& value) {
  const auto choice = choose_engine(value, "");
  return choice.ok() ? "" : choice.error();
}

std::string check_offload(const std::string& value) {
  const auto choice = choose_engine(setting(Setting::kEngine), value);
  return choice.ok() ? "" : choice.error();
}

std::string check_fault_list(const std::string& value) { return check_faults(value); }

std::string check_seed(const std::string& value) {
  const auto seed = parse_seed(value);
  return seed.ok() ? "" : seed.error();
}

std::string check_lid(const std::string& value) {
  const auto wanted = lids_wanted(value);
  return wanted.ok() ? "" : wanted.error();
}

std::string check_strict(const std::string& value) {
  const auto strict = strictness(value);
  return strict.ok() ? "" : strict.error();
}

std::string check_vendor(const std::string& value) {
  const auto id = vendor_id(value);
  return id.ok() ? "" : id.error();
}

std::string check_backend(const std::string& value) {
  if (value.empty() || value == "uroce" || value == "ibverbs") return "";
  return "UROCE_BACKEND must be uroce or ibverbs, not '" + value + "'";
}

}  // namespace

const SettingTable& settings() {
  static constexpr SettingTable kTable{{
#define UROCE_SETTING(id, name, option, value, fallback, meaning, more, check) \
  {name, option, value, fallback, meaning, more, check},
#include "verbs/ibverbs/settings.def"
#undef UROCE_SETTING
  }};
  return kTable;
}

std::string setting(Setting which) {
  // A privileged program (setuid, or with file capabilities) does not do what the environment of its caller says.
  const char* const value = secure_getenv(settings().at(static_cast<std::size_t>(which)).name);
  return value == nullptr ? "" : value;
}

}  // namespace uroce::ibv
