// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/execute_wills.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "engine/broker/wills.h"
#include "engine/os/unix_message.h"
#include "engine/port/send_sockets.h"

namespace uroce::engine {
namespace {

using namespace std::chrono_literals;

/// When each packet is sent, after the end of the process: nobody is there any more to hear that one has arrived.
constexpr std::chrono::milliseconds kPauses[] = {0ms, 50ms, 350ms};

std::span<const Will> map(int memory, std::uint32_t count) {
  struct stat status {};
  const std::size_t bytes = std::size_t{count} * sizeof(Will);
  if (::fstat(memory, &status) != 0 || count > Wills::kMost || static_cast<std::size_t>(status.st_size) < bytes) {
    return {};
  }
  void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED) return {};
  return {static_cast<const Will*>(at), count};
}

/// False: it can't be seen, and the process may live.
bool await_end(int connection) {
  char nothing;
  while (::recv(connection, &nothing, 1, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

/// The valid ones. Only where something was written: to look at other parts of `memory` takes as much as to write them.
std::vector<const Will*> find_valid(int memory, std::span<const Will> wills) {
  std::vector<const Will*> valid;
  std::size_t next = 0;
  off_t end = 0;
  for (off_t begin; (begin = ::lseek(memory, end, SEEK_DATA)) >= 0;) {
    end = ::lseek(memory, begin, SEEK_HOLE);
    if (end < begin) break;
    next = std::max(next, static_cast<std::size_t>(begin) / sizeof(Will));
    for (; next < wills.size() && next * sizeof(Will) < static_cast<std::size_t>(end); ++next) {
      const Will& will = wills[next];
      if (will.is_valid.load(std::memory_order_acquire) != 0 && will.size <= Will::kMaxPacket) valid.push_back(&will);
    }
  }
  return valid;
}

void send(const Will& will, SendSockets& sockets) {
  const auto slot = sockets.find_or_open(will.source, will.source_port);
  if (!slot) return;
  const SendSocket& socket = sockets[*slot];
  const proto::Path path;
  set_header_fields(socket.fd.get(), will.source, will.tclass, path.hop_limit);
  const SocketAddress to(will.destination, proto::kRocePort, socket.scope);
  ::sendto(socket.fd.get(), will.packet, will.size, 0, to.get(), to.size);
}

}  // namespace

bool execute_wills(int connection) {
  WillsHandover handover;
  std::vector<Fd> descriptors;
  if (!receive_message(connection, handover, descriptors)) return false;
  if (handover.protocol != WillsHandover::kProtocol || descriptors.size() != 1) return false;
  const int memory = descriptors[0].get();
  const auto wills = map(memory, handover.count);
  if (wills.empty() || !await_end(connection)) return false;
  const auto valid = find_valid(memory, wills);
  SendSockets sockets;
  for (const auto pause : kPauses) {
    if (valid.empty()) break;
    std::this_thread::sleep_for(pause);
    for (const Will* will : valid) send(*will, sockets);
  }
  return true;
}

}  // namespace uroce::engine
