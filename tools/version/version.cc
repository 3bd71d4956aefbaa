// SPDX-License-Identifier: Apache-2.0
#include "tools/version/version.h"

#include "uroce_commit.h"

namespace uroce::tools {

std::string version_text(const std::string& program) {
  const std::string commit = UROCE_COMMIT;
  return program + " " UROCE_VERSION + (commit.empty() ? "" : " (" + commit + ")");
}

std::string server_name() { return UROCE_SERVER_NAME; }
std::string client_name() { return UROCE_CLIENT_NAME; }

}  // namespace uroce::tools
