// SPDX-License-Identifier: Apache-2.0
// One end of an RC connection, on plain verbs: memory between guards, an MR, a CQ with its channel, a QP.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "verbs/ibverbs/catalogue/newer.h"

// The header hides some functions behind macros of the same name.
#undef ibv_reg_mr

namespace uroce::chaos {

/// An opened device, of which a process has one.
struct Device {
  struct ibv_context* context = nullptr;
  struct ibv_pd* pd = nullptr;
  union ibv_gid gid {};

  /// Empty, or what failed.
  std::string open();
  /// What failed; empty when nothing is left.
  std::string close();
};

/// What the other end has to know.
struct Address {
  union ibv_gid gid {};
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  std::uint64_t memory = 0;
  std::uint32_t rkey = 0;
};

class Link {
 public:
  static constexpr std::uint32_t kBytes = 1 << 16;    ///< The longest WRITE.
  static constexpr std::uint32_t kMessage = 1 << 12;  ///< Each SEND.
  static constexpr std::uint32_t kReceives = 16;      ///< Posted.

  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  /// Destroys what is left, when the program exits without close(): as destructors of global objects do.
  ~Link() { close(); }

  /// All of these: empty, or what went wrong: "status NAME" of the first completion that is not successful, or another
  /// sentence.
  std::string open(Device& device);
  std::string connect(const Address& peer);
  /// WRITEs `size` bytes that follow from `seed` to the peer, READs them back and compares.
  std::string write(std::uint32_t size, std::uint32_t seed);
  /// Adds 1 to the peer's counter `count` times; nobody else does.
  std::string add(std::uint32_t count);
  std::string send(std::uint32_t count, std::uint32_t seed);
  /// Waits for what the peer sends with the same arguments, on the channel if `by_event`.
  std::string expect(std::uint32_t count, std::uint32_t seed, bool by_event);
  /// Asks for an event of the next completion.
  std::string arm();
  /// Takes the event, which must come.
  std::string take_event();
  /// Whether the bytes around the registered memory are as they were.
  std::string check() const;
  std::string close();

  Address address(const Device& device) const;

  // What programs do to their memory. The MR stays.
  void unmap();
  void protect();
  void map_again();

 private:
  std::string get_event();
  std::string post(enum ibv_wr_opcode opcode, std::uint32_t local, std::uint32_t remote, std::uint32_t length);
  std::string post_receive(std::uint32_t index);
  /// The next completion.
  std::string await(struct ibv_wc& wc, bool by_event = false);
  struct ibv_sge sge(std::uint32_t offset, std::uint32_t length) const;

  std::uint8_t* memory_ = nullptr;
  bool is_memory_ours_ = true;  ///< Nothing has been done to it.
  struct ibv_mr* mr_ = nullptr;
  struct ibv_comp_channel* channel_ = nullptr;
  struct ibv_cq* cq_ = nullptr;
  struct ibv_qp* qp_ = nullptr;
  Address peer_;
  std::uint64_t added_ = 0;
  unsigned events_ = 0;  ///< Not acknowledged.
};

}  // namespace uroce::chaos
