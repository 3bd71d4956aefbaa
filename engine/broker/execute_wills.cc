// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/execute_wills.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
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

std::span<const Will> map(const std::vector<Fd>& descriptors, std::uint32_t count) {
  struct stat status {};
  const std::size_t bytes = std::size_t{count} * sizeof(Will);
  if (descriptors.size() != 1 || ::fstat(descriptors[0].get(), &status) != 0 || count > Wills::kMost ||
      static_cast<std::size_t>(status.st_size) < bytes) {
    return {};
  }
  void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptors[0].get(), 0);
  if (at == MAP_FAILED) return {};
  return {static_cast<const Will*>(at), count};
}

void await_end(int connection) {
  pollfd polled{.fd = connection, .events = POLLIN, .revents = 0};
  while (::poll(&polled, 1, -1) < 0) continue;  // EINTR
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
  if (handover.protocol != WillsHandover::kProtocol) return false;
  const auto wills = map(descriptors, handover.count);
  if (wills.empty()) return false;
  await_end(connection);
  std::vector<const Will*> valid;
  for (const Will& will : wills) {
    if (will.is_valid.load(std::memory_order_acquire) != 0 && will.size <= Will::kMaxPacket) valid.push_back(&will);
  }
  SendSockets sockets;
  for (const auto pause : kPauses) {
    if (valid.empty()) break;
    std::this_thread::sleep_for(pause);
    for (const Will* will : valid) send(*will, sockets);
  }
  return true;
}

}  // namespace uroce::engine
