// SPDX-License-Identifier: Apache-2.0
#include "engine/os/setup_error.h"

#include <cstring>
#include <utility>

#include "proto/base/errno_name.h"

namespace uroce::engine {

std::string errno_text(int error) { return std::string(proto::errno_name(error)) + " (" + std::strerror(error) + ")"; }

SetupError call_failed(const std::string& what, const std::string& call, int error) {
  std::string sentence = what + ": " + call + ": " + errno_text(error);
  if (error == EMFILE || error == ENFILE) sentence += "; raise RLIMIT_NOFILE (ulimit -n)";
  if (error == EPERM || error == EACCES || error == ENOSYS) {
    sentence += "; a seccomp filter forbids it, probably: allow it in the profile of the container";
  }
  return {error, std::move(sentence)};
}

}  // namespace uroce::engine
