// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/wills.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>

#include "engine/broker/start_broker.h"
#include "engine/os/unix_message.h"
#include "proto/quiet_signals.h"

namespace uroce::engine {
namespace {

/// Mapped at first; more when it is needed. Valgrind's leak check in a child of fork(), where nothing is mapped, takes
/// a fault for each word: tens of seconds for all of it.
constexpr std::uint32_t kAtFirst = 64;

constexpr std::size_t bytes(std::uint32_t wills) { return wills * sizeof(Will); }

/// RLIMIT_FSIZE counts for a memfd as well.
std::uint32_t allowed() {
  rlimit file_size{};
  if (::getrlimit(RLIMIT_FSIZE, &file_size) != 0) return Wills::kMost;
  return static_cast<std::uint32_t>(std::min<rlim_t>(file_size.rlim_cur / sizeof(Will), Wills::kMost));
}

}  // namespace

std::unique_ptr<Wills> Wills::make() {
  Fd memory(::memfd_create("uroce-wills", MFD_CLOEXEC));
  const std::uint32_t room = allowed(), mapped = std::min(room, kAtFirst);
  const proto::QuietSignals quiet;  // The limit may be another one by now.
  if (!memory || ::ftruncate(memory.get(), static_cast<off_t>(bytes(room))) != 0) return nullptr;
  void* const at = ::mmap(nullptr, bytes(mapped), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory.get(), 0);
  if (at == MAP_FAILED) return nullptr;
  ::madvise(at, bytes(mapped), MADV_DONTFORK);
  return std::unique_ptr<Wills>(new Wills(std::move(memory), room, static_cast<Will*>(at), mapped));
}

Wills::~Wills() {
  if (wills_ == nullptr) return;
  // Nobody has died: there is nothing to be executed.
  for (const auto& [id, place] : by_id_) wills_[place].is_valid.store(0, std::memory_order_release);
  ::munmap(wills_, bytes(mapped_));
}

bool Wills::find_executor(const std::string& executable) {
  char nothing;
  const auto is_there = [&] {
    return connection_ && ::recv(connection_.get(), &nothing, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  };
  if (is_there()) return true;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  connection_ = Fd(ends[0]);
  Fd executors(ends[1]);
  const WillsHandover handover{.count = room_};
  if (send_message(connection_.get(), handover, std::array{memory_.get()}) &&
      !start_helper(executable, kExecuteWills, std::move(executors))) {
    return true;
  }
  connection_.reset();
  return false;
}

bool Wills::deposit(std::uint32_t id, const proto::Path& path, Bytes packet) {
  std::uint32_t* const known = packet.size() > Will::kMaxPacket ? nullptr : make_room(id);
  if (known == nullptr) {
    withdraw(id);
    return false;
  }
  std::uint32_t place = used_;
  if (free_.empty()) {
    ++used_;
  } else {
    place = free_.back();
    free_.pop_back();
  }
  Will& will = wills_[place];
  will.size = static_cast<std::uint32_t>(packet.size());
  will.source = path.source;
  will.destination = path.destination;
  will.source_port = path.source_port;
  will.tclass = path.tclass;
  std::copy(packet.begin(), packet.end(), will.packet);
  will.is_valid.store(1, std::memory_order_release);
  // Only now: at each moment there is one at least.
  if (const std::uint32_t former = std::exchange(*known, place); former != kNowhere) release(former);
  return true;
}

/// Where the place of the will of `id` stands; null: there is none left, or no memory. What takes memory is done.
std::uint32_t* Wills::make_room(std::uint32_t id) try {
  if (free_.empty() && used_ == mapped_ && !map_more()) return nullptr;
  if (free_.empty() && free_.capacity() <= used_) free_.reserve(std::max<std::size_t>(2 * free_.capacity(), used_ + 1));
  return &by_id_.try_emplace(id, kNowhere).first->second;
} catch (const std::bad_alloc&) {
  return nullptr;
}

bool Wills::map_more() {
  if (mapped_ == room_) return false;
  const std::uint32_t more = std::min(2 * mapped_, room_);
  void* const at = ::mremap(wills_, bytes(mapped_), bytes(more), MREMAP_MAYMOVE);
  if (at == MAP_FAILED) return false;
  wills_ = static_cast<Will*>(at);
  mapped_ = more;
  return true;
}

void Wills::withdraw(std::uint32_t id) {
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return;
  release(known->second);
  by_id_.erase(known);
  if (!by_id_.empty()) return;
  // What many connections have taken goes back, when the last one has gone.
  if (used_ > kAtFirst) ::madvise(wills_, bytes(mapped_), MADV_REMOVE);
  free_.clear();
  used_ = 0;
}

void Wills::release(std::uint32_t place) {
  wills_[place].is_valid.store(0, std::memory_order_release);
  free_.push_back(place);
}

void Wills::after_fork_in_child() {
  wills_ = nullptr;  // Not mapped here.
  connection_.reset();
  memory_.reset();
}

}  // namespace uroce::engine
