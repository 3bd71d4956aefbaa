// SPDX-License-Identifier: Apache-2.0
#include "proto/address.h"

// inet_ntop and inet_pton only turn text into bytes and back: no socket, no resolver, no locale.
#include <arpa/inet.h>

#include "proto/base/check.h"

namespace uroce::proto {

std::string to_string(const Gid& gid) {
  char text[INET6_ADDRSTRLEN];
  const char* done = gid.is_v4() ? inet_ntop(AF_INET, gid.v4(), text, sizeof text)
                                 : inet_ntop(AF_INET6, gid.raw.data(), text, sizeof text);
  UROCE_ASSERT(done != nullptr);
  return done;
}

std::optional<Gid> parse_gid(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  const std::string terminated(text);
  Gid gid = Gid::from_v4(0, 0, 0, 0);
  if (inet_pton(AF_INET, terminated.c_str(), gid.raw.data() + 12) == 1) return gid;
  if (inet_pton(AF_INET6, terminated.c_str(), gid.raw.data()) == 1) return gid;
  return std::nullopt;
}

}  // namespace uroce::proto
