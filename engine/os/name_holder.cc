// SPDX-License-Identifier: Apache-2.0
#include "engine/os/name_holder.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "engine/os/fd.h"
#include "engine/os/users.h"

namespace uroce::engine {
namespace {

constexpr std::uint32_t kShowUser = 0x40;  // UDIAG_SHOW_UID, which headers before Linux 5.3 lack.
constexpr int kUser = 7;                   // UNIX_DIAG_UID.

/// With the zero byte that makes it an abstract one.
std::string_view text_of(const AbstractName& name) {
  return {name.address.sun_path, name.size - offsetof(sockaddr_un, sun_path)};
}

std::size_t length_of(const nlmsghdr& head) { return head.nlmsg_len; }
std::size_t length_of(const rtattr& head) { return head.rta_len; }

/// Takes what begins with `head`, a message or an attribute, off `bytes`; the result is what follows the head in it.
template <class Head>
std::optional<std::string_view> take(std::string_view& bytes, Head& head) {
  constexpr std::size_t kAlignment = 4;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::size_t length = length_of(head);
  if (length < sizeof head || length > bytes.size()) return std::nullopt;
  const std::string_view body = bytes.substr(sizeof head, length - sizeof head);
  bytes.remove_prefix(std::min(bytes.size(), (length + kAlignment - 1) / kAlignment * kAlignment));
  return body;
}

/// What the kernel says about one socket.
struct Said {
  int type = 0;
  std::string_view name;
  std::optional<uid_t> user;
};

Said read(std::string_view message) {
  Said said;
  unix_diag_msg about{};
  if (message.size() < sizeof about) return said;
  std::memcpy(&about, message.data(), sizeof about);
  said.type = about.udiag_type;
  message.remove_prefix(sizeof about);
  rtattr head{};
  while (const auto body = take(message, head)) {
    uid_t user = 0;
    if (head.rta_type == UNIX_DIAG_NAME) said.name = *body;
    if (head.rta_type != kUser || body->size() != sizeof user) continue;
    std::memcpy(&user, body->data(), sizeof user);
    said.user = known_user(user);
  }
  return said;
}

/// Has the kernel list all Unix sockets of this network namespace.
Fd ask() {
  struct {
    nlmsghdr head{};
    unix_diag_req request{};
  } question;
  question.head.nlmsg_len = sizeof question;
  question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  question.request.sdiag_family = AF_UNIX;
  question.request.udiag_states = ~std::uint32_t{0};
  question.request.udiag_show = UDIAG_SHOW_NAME | kShowUser;
  Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (fd && ::send(fd.get(), &question, sizeof question, 0) != sizeof question) fd.reset();
  return fd;
}

}  // namespace

std::optional<uid_t> holder_of(const AbstractName& name) {
  const Fd fd = ask();
  std::vector<char> answer(1 << 15);  // The program may have called on a small stack.
  while (fd) {
    const ssize_t size = ::recv(fd.get(), answer.data(), answer.size(), 0);
    if (size <= 0) return std::nullopt;
    std::string_view rest(answer.data(), static_cast<std::size_t>(size));
    nlmsghdr head{};
    while (const auto body = take(rest, head)) {
      if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;  // The end, or an error.
      const Said said = read(*body);
      if (said.type == SOCK_SEQPACKET && said.name == text_of(name)) return said.user;
    }
  }
  return std::nullopt;
}

std::string held_by_others(const AbstractName& name) {
  const auto user = holder_of(name);
  return (user ? "a process of user " + std::to_string(*user) : "another process") + " has the Unix socket @" +
         std::string(text_of(name).substr(1));
}

}  // namespace uroce::engine
