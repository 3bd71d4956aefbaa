// SPDX-License-Identifier: Apache-2.0
// Which uroce this is: what --version prints.
#pragma once

#include <string>

namespace uroce::tools {

/// "rdma_client 0.1.0 (3c17a60)": the project's version and, when it was built from a clone, the commit.
std::string version_text(const std::string& program);

/// What rdma_server and rdma_client are called where they are installed: packages rename them, since rdmacm-utils has
/// programs of these names, too.
std::string server_name();
std::string client_name();
/// `text` with these names, wherever it says rdma_server and rdma_client.
std::string with_installed_names(std::string text, const std::string& server = server_name(),
                                 const std::string& client = client_name());

}  // namespace uroce::tools
