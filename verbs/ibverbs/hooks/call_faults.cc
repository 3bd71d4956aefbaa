// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/hooks/call_faults.h"

#include <array>
#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "proto/base/made_once.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/settings.h"
#include "verbs/ibverbs/catalogue/verbs_front.h"
#include "verbs/ibverbs/hooks/replaceable.h"

namespace uroce::ibv {
namespace {

/// Verbs that programs reach through an object instead of a function of ours.
constexpr std::string_view kInlineVerbs[] = {
#define UROCE_OP(member, verb, ret, params, args) verb,
#define UROCE_EXTENDED UROCE_OP
#define UROCE_OF_OBJECT UROCE_OP
#include "verbs/ibverbs/catalogue/slots.def"
};

/// "" in place of a function that can't fail.
constexpr std::string_view kFunctions[] = {
#define UROCE_VERB(ret, name, params, args, version) can_fail<ret> ? #name : "",
#include "verbs/ibverbs/catalogue/functions.def"
#include "verbs/ibverbs/catalogue/functions_extra.def"
#include "verbs/ibverbs/catalogue/functions_newer.def"
#undef UROCE_VERB
};

/// Functions whose number is no error.
constexpr std::string_view kAnswers[] = {"ibv_query_qp_data_in_order", "ibv_rate_to_mult", "ibv_rate_to_mbps"};

bool is_verb(std::string_view name) {
  if (name.empty()) return false;
  for (const std::string_view answer : kAnswers) {
    if (answer == name) return false;
  }
  for (const std::string_view verb : kFunctions) {
    if (verb == name) return true;
  }
  for (const std::string_view verb : kInlineVerbs) {
    if (verb == name) return true;
  }
  return false;
}

std::atomic<std::uint64_t> injected = 0;

struct Armed {
  explicit Armed(engine::faults::CallFault f) : fault(std::move(f)) {}
  engine::faults::CallFault fault;
  std::atomic<std::uint64_t> calls = 0;
};

using ArmedList = std::vector<std::shared_ptr<Armed>>;

/// Those of `before` that may still strike, which go on counting, and `more`.
std::unique_ptr<ArmedList> arm(const std::vector<engine::faults::CallFault>& more, const ArmedList& before = {}) {
  auto list = std::make_unique<ArmedList>();
  for (const auto& one : before) {  // Tests may ask for one fault again and again.
    if (one->calls.load(std::memory_order_relaxed) < one->fault.which.last) list->push_back(one);
  }
  for (const auto& fault : more) list->push_back(std::make_shared<Armed>(fault));
  return list;
}

/// At first the faults of the environment, which counts at the first call of any verb.
Replaceable<ArmedList>& armed() {
  static constinit std::atomic<Replaceable<ArmedList>*> made = nullptr;
  return made_once(made, [] {
    const auto spec = engine::faults::parse_faults(setting(Setting::kFaults));
    // ibv_get_device_list() tells the error.
    return std::make_unique<Replaceable<ArmedList>>(arm(spec ? spec->calls : std::vector<engine::faults::CallFault>{}));
  });
}

}  // namespace

int call_fault(const char* verb) {
  const Armed* struck = nullptr;
  std::uint64_t call = 0;
  for (const auto& one : armed().now()) {
    if (one->fault.verb != verb) continue;
    const std::uint64_t n = one->calls.fetch_add(1, std::memory_order_relaxed) + 1;
    if (struck != nullptr || !one->fault.which.includes(n)) continue;
    struck = one.get();
    call = n;
  }
  if (struck == nullptr) return 0;
  injected.fetch_add(1, std::memory_order_relaxed);
  return refuse(struck->fault.error, std::string(verb) + " fails on request: call " + std::to_string(call));
}

void replace_call_faults(const engine::faults::FaultSpec& spec) { armed().replace(arm(spec.calls)); }

void add_call_faults(const engine::faults::FaultSpec& more) {
  if (!more.calls.empty()) armed().replace(arm(more.calls, armed().now()));
}

std::uint64_t call_faults_injected() { return injected.load(std::memory_order_relaxed); }

std::string check_calls(const engine::faults::FaultSpec& spec) {
  for (const auto& fault : spec.calls) {
    if (!is_verb(fault.verb)) return "call=" + fault.verb + ": there is no such verb, or it can't fail";
  }
  return "";
}

}  // namespace uroce::ibv
