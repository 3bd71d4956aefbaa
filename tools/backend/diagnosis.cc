// SPDX-License-Identifier: Apache-2.0
#include "tools/rdma/diagnosis.h"

#include <cstring>

#include "tools/backend/backend.h"

namespace uroce::tools {

std::string verbs_error(int error) {
  const std::string why = last_backend_error();
  return why.empty() ? std::strerror(error) : why;
}

std::string no_device_sentence(int error) {
  if (selected_backend() == Backend::kIbverbs) {
    return "the system's libibverbs finds no RDMA device on this machine; use --backend uroce for the emulated NIC";
  }
  return "the emulated NIC is not available: " + verbs_error(error != 0 ? error : ENODEV);
}

std::string_view backend_in_use() { return backend_name(selected_backend()); }

}  // namespace uroce::tools
