// SPDX-License-Identifier: Apache-2.0
// Wills: packets to be sent if this process is killed. A process of their own, the executor (execute_wills.h), reads
// them out of memory that both share, when its connection to this process ends. So depositing one is no system call,
// and no kill of the process is too fast for it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/os/fd.h"
#include "proto/bytes.h"
#include "proto/path.h"

namespace uroce::engine {

/// One will, as it lies in the shared memory.
struct Will {
  static constexpr std::size_t kMaxPacket = 296;
  std::atomic<std::uint32_t> is_valid;
  std::uint32_t size;
  proto::Gid source, destination;
  std::uint16_t source_port;
  std::uint8_t tclass;
  std::uint8_t packet[kMaxPacket];  ///< BTH .. ICRC.
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// First and only message to an executor; the memory comes with it.
struct WillsHandover {
  static constexpr std::uint32_t kProtocol = 1;
  std::uint32_t protocol = kProtocol;
  std::uint32_t count = 0;  ///< Wills that there is room for.
};

/// Not thread-safe.
class Wills {
 public:
  /// How many there can be at a time, or fewer, where RLIMIT_FSIZE has less room. Memory is taken for those that there
  /// are.
  static constexpr std::uint32_t kMost = 1 << 16;

  /// Null when there is no memory.
  static std::unique_ptr<Wills> make();
  ~Wills();
  Wills(const Wills&) = delete;
  Wills& operator=(const Wills&) = delete;

  /// Starts an executor (`executable`: uroce-broker) if there is none, or it is gone. False: there is none.
  bool find_executor(const std::string& executable);
  /// Deposits a packet under `id`, instead of the one that is there. False: there are too many, it is too long, or
  /// there is no memory; then there is none under `id`.
  bool deposit(std::uint32_t id, const proto::Path& path, Bytes packet);
  void withdraw(std::uint32_t id);
  std::size_t size() const { return by_id_.size(); }

  /// In a child of fork(): the wills are the parent's. Afterwards only the destructor may be called.
  void after_fork_in_child();

 private:
  Wills(Fd memory, std::uint32_t room, Will* wills, std::uint32_t mapped)
      : memory_(std::move(memory)), room_(room), wills_(wills), mapped_(mapped) {}
  static constexpr std::uint32_t kNowhere = kMost;
  std::uint32_t* make_room(std::uint32_t id);
  bool map_more();
  void release(std::uint32_t place);

  Fd memory_;
  std::uint32_t room_;    ///< Wills that memory_ has room for; ...
  Will* wills_;           ///< ... the first ones, mapped, ...
  std::uint32_t mapped_;  ///< ... so many of them.
  Fd connection_;         ///< The executor has the other end.
  std::unordered_map<std::uint32_t, std::uint32_t> by_id_;
  std::vector<std::uint32_t> free_;  ///< Below used_. Has room for all of them.
  std::uint32_t used_ = 0;
};

}  // namespace uroce::engine
