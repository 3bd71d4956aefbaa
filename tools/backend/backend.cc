// SPDX-License-Identifier: Apache-2.0
#include "tools/backend/backend.h"

#include "tools/backend/rdmacm.h"
#include "verbs/ibverbs/host/device.h"

namespace uroce::tools {
namespace {

struct Selection {
  Backend backend = Backend::kUroce;
  const ibv::VerbsTable* table = &ibv::uroce_verbs();
};

Selection& selection() {
  static Selection selected;
  return selected;
}

}  // namespace

std::string_view backend_name(Backend backend) { return backend == Backend::kUroce ? "uroce" : "ibverbs"; }

std::optional<std::string> select_backend(Backend backend) {
  if (backend == Backend::kUroce) {
    selection() = {};
    if (const auto* preloaded = rdma_cm_verbs()) selection().table = preloaded->verbs;
    return std::nullopt;
  }
  static ibv::VerbsTable system_table;
  if (auto error = load_verbs("libibverbs.so.1", system_table)) return error;
  selection() = {backend, &system_table};
  return std::nullopt;
}

Backend selected_backend() { return selection().backend; }

const ibv::VerbsTable& selected_verbs() { return *selection().table; }

std::optional<ibv::NicFacts> nic_facts(ibv_context* context) {
  if (context == nullptr || selected_backend() != Backend::kUroce) return std::nullopt;
  const auto* preloaded = rdma_cm_verbs();
  return preloaded != nullptr ? preloaded->nic_facts(context) : ibv::nic_facts(context);
}

bool place_nic(const std::string& address) {
  if (selected_backend() != Backend::kUroce) return false;
  const auto* preloaded = rdma_cm_verbs();
  return preloaded != nullptr ? preloaded->place_automatic(address) : ibv::place_automatic(address);
}

std::string last_backend_error() {
  if (selected_backend() != Backend::kUroce) return "";
  const auto* preloaded = rdma_cm_verbs();
  return preloaded != nullptr ? preloaded->last_error() : ibv::last_error();
}

}  // namespace uroce::tools
