// SPDX-License-Identifier: Apache-2.0
#include "tools/version/version.h"

#include <cstddef>
#include <string_view>

#include "uroce_commit.h"

namespace uroce::tools {
namespace {

void replace_all(std::string& text, std::string_view name, const std::string& other) {
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += other.size()) {
    text.replace(at, name.size(), other);
  }
}

}  // namespace

std::string version_text(const std::string& program) {
  const std::string commit = UROCE_COMMIT;
  return program + " " UROCE_VERSION + (commit.empty() ? "" : " (" + commit + ")");
}

std::string server_name() { return UROCE_SERVER_NAME; }
std::string client_name() { return UROCE_CLIENT_NAME; }

std::string with_installed_names(std::string text, const std::string& server, const std::string& client) {
  replace_all(text, "rdma_server", server);
  replace_all(text, "rdma_client", client);
  return text;
}

}  // namespace uroce::tools
