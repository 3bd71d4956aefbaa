// SPDX-License-Identifier: Apache-2.0
// A program on plain verbs that does as it is told, line by line on stdin, and answers each line on stdout: "ok ..." or
// what went wrong. chaos.py is who tells it. It connects, transfers and verifies like a good program, and on command it
// forks, execs, exits with everything open, takes its memory away or runs out of descriptors.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>

#include "tests/judged/chaos/link.h"

namespace uroce::chaos {
namespace {

// Global, so that exit() destroys them: the links first.
Device device;
std::map<int, Link> links;
std::vector<pid_t> children;

std::string hex(const union ibv_gid& gid) {
  std::ostringstream text;
  for (const std::uint8_t byte : gid.raw) text << "0123456789abcdef"[byte >> 4] << "0123456789abcdef"[byte & 15];
  return text.str();
}

Address read_address(std::istream& words) {
  Address address;
  std::string gid;
  words >> gid >> address.qpn >> address.psn >> address.memory >> address.rkey;
  for (std::size_t i = 0; i < sizeof address.gid.raw && 2 * i + 2 <= gid.size(); ++i) {
    address.gid.raw[i] = static_cast<std::uint8_t>(std::stoul(gid.substr(2 * i, 2), nullptr, 16));
  }
  return address;
}

std::string close_all() {
  std::string why;
  for (auto& [id, link] : links) why += link.close();
  links.clear();
  return why + device.close();
}

/// A link of `own` with itself.
std::string talk_to_oneself() {
  Device own;
  Link a, b;
  std::string why = own.open();
  if (why.empty()) why = a.open(own);
  if (why.empty()) why = b.open(own);
  if (why.empty()) why = a.connect(b.address(own));
  if (why.empty()) why = b.connect(a.address(own));
  if (why.empty()) why = a.write(Link::kBytes, 7);
  if (why.empty()) why = b.add(10);
  why += a.close();
  why += b.close();
  return why + own.close();
}

/// What a child of fork() does with what it has of its parent.
[[noreturn]] void live_as_child(const std::string& how) {
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  if (how == "exit") std::exit(0);  // Through the destructors of everything that is global.
  if (how == "destroy") {
    close_all();
    ::_exit(0);
  }
  if (how == "exec") {
    ::execl("/bin/true", "true", nullptr);
    ::_exit(1);
  }
  if (how == "own") {
    const std::string why = talk_to_oneself();
    if (!why.empty()) std::cerr << "child: " << why << std::endl;
    ::_exit(why.empty() ? 0 : 1);
  }
  if (how == "idle") {
    while (true) ::pause();
  }
  ::_exit(how == "_exit" ? 0 : 2);
}

std::string fork_child(const std::string& how) {
  const pid_t child = ::fork();
  if (child == 0) live_as_child(how);
  if (child < 0) return std::string("fork: ") + std::strerror(errno);
  children.push_back(child);
  return {};
}

/// Waits for all children; `kill` ends those that don't by themselves.
std::string reap(bool kill) {
  std::string why;
  for (const pid_t child : children) {
    if (kill) ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    const bool was_killed = kill && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (status != 0 && !was_killed) why += "a child ended with status " + std::to_string(status) + "; ";
  }
  children.clear();
  return why;
}

/// Calls for new objects when there are no descriptors left: an errno each, or success, and life goes on.
std::string starve() {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const int lowest = ::open("/dev/null", O_RDONLY);  // The first free one.
  ::close(lowest);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(lowest), .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  std::string why;
  {
    Device second;
    Link link;
    errno = 0;
    if (struct ibv_comp_channel* channel = ibv_create_comp_channel(device.context)) {
      ibv_destroy_comp_channel(channel);
      why = "a completion channel without a descriptor";
    } else if (errno != EMFILE) {
      why = std::string("ibv_create_comp_channel: ") + std::strerror(errno);
    }
    second.open();
    if (second.pd != nullptr) link.open(second);
    link.close();
    second.close();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  return why;
}

std::string on_link(const std::string& command, std::istream& words) {
  int id = 0;
  std::uint32_t first = 0, second = 0;
  words >> id;
  Link& link = links[id];
  if (command == "link") {
    if (auto why = link.open(device); !why.empty()) return why;
    const Address own = link.address(device);
    std::ostringstream answer;
    answer << "ok " << hex(own.gid) << ' ' << own.qpn << ' ' << own.psn << ' ' << own.memory << ' ' << own.rkey;
    return answer.str();
  }
  if (command == "connect") return link.connect(read_address(words));
  if (command == "unmap") return link.unmap(), std::string();
  if (command == "protect") return link.protect(), std::string();
  if (command == "remap") return link.map_again(), std::string();
  if (command == "arm") return link.arm();
  if (command == "event") return link.take_event();
  if (command == "close") {
    std::string why = link.close();
    links.erase(id);
    return why;
  }
  words >> first >> second;
  if (command == "write") return link.write(first, second);
  if (command == "add") return link.add(first);
  if (command == "send") return link.send(first, second);
  if (command == "expect") return link.expect(first, second, /*by_event=*/false);
  if (command == "expect_event") return link.expect(first, second, /*by_event=*/true);
  return "no such command: " + command;
}

std::string obey(const std::string& line) {
  std::istringstream words(line);
  std::string command, how;
  words >> command;
  if (command == "open") return device.open();
  if (command == "fork") return words >> how, fork_child(how);
  if (command == "reap") return reap(/*kill=*/false);
  if (command == "kill_children") return reap(/*kill=*/true);
  if (command == "starve") return starve();
  if (command == "exit") std::exit(0);
  if (command == "quick_exit") ::_exit(0);
  if (command == "exec") {
    ::execl("/bin/true", "true", nullptr);
    return "exec failed";
  }
  if (command == "check") {
    std::string why;
    for (const auto& [id, link] : links) why += link.check();
    return why;
  }
  return on_link(command, words);
}

}  // namespace
}  // namespace uroce::chaos

int main() {
  using namespace uroce::chaos;
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    const std::string answer = obey(line);
    std::cout << (answer.empty() ? "ok" : answer) << std::endl;
  }
  const std::string why = close_all();
  std::cout << (why.empty() ? "ok" : why) << std::endl;
  return why.empty() ? 0 : 1;
}
