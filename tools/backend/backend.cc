#include "tools/backend/backend.h"

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
  return ibv::nic_facts(context);
}

std::string last_backend_error() { return selected_backend() == Backend::kUroce ? ibv::last_error() : std::string(); }

}  // namespace uroce::tools
