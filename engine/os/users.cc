// SPDX-License-Identifier: Apache-2.0
#include "engine/os/users.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>

namespace uroce::engine {
namespace {

constexpr uid_t kOverflowUser = 65534;
constexpr std::uint64_t kEverybody = 0xFFFF'FFFF;

/// For whom there is no number in this user namespace.
uid_t overflow_user() {
  uid_t user = kOverflowUser;
  std::ifstream("/proc/sys/kernel/overflowuid") >> user;
  return user;
}

/// So that the number is a user's own. It is in the initial user namespace.
bool is_everybody_mapped() {
  std::uint64_t inside = 0, outside = 0, count = 0;
  std::ifstream("/proc/self/uid_map") >> inside >> outside >> count;
  return count == kEverybody;
}

/// Nothing: errno says why.
std::optional<ucred> peer_credentials(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  return credentials;
}

}  // namespace

std::optional<uid_t> known_user(uid_t user) {
  if (user == overflow_user() && !is_everybody_mapped()) return std::nullopt;
  return user;
}

// geteuid() may be libfakeroot's, which says that everybody is root. Peers know from the kernel who we are.
std::optional<uid_t> own_user() { return known_user(static_cast<uid_t>(::syscall(SYS_geteuid))); }

std::optional<uid_t> peer_user(int socket) {
  const auto user = ask_for_peer_user(socket);
  return user.ok() ? *user : std::nullopt;
}

Result<std::optional<uid_t>, int> ask_for_peer_user(int socket) {
  const auto credentials = peer_credentials(socket);
  if (!credentials) return Err{errno};
  return known_user(credentials->uid);
}

pid_t peer_process(int socket) {
  const auto credentials = peer_credentials(socket);
  return credentials ? credentials->pid : 0;
}

}  // namespace uroce::engine
