// SPDX-License-Identifier: Apache-2.0
// One of two processes that exchange messages through a NIC of their own, on plain verbs.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "tests/bench/usage.h"
#include "verbs/ibverbs/catalogue/verbs_table.h"
#include "verbs/ibverbs/host/facts.h"

namespace uroce::bench {

/// Prints what failed, with errno, and ends the process.
[[noreturn]] void die(const char* what);

/// Messages up to this go inline.
inline constexpr std::uint32_t kInlineMax = 64;

struct Shape {
  std::uint32_t bytes = 64;  ///< Per message.
  std::uint32_t qps = 1;
  std::uint32_t depth = 16;  ///< WRs that each queue of a QP takes.
  bool events = false;       ///< Sleep on a completion channel.
};

/// The way to the other process: a socket pair.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  void write(const void* data, std::size_t size) const;
  void read(void* data, std::size_t size) const;
  /// Waits for the other side to get here.
  void meet() const;
  bool readable() const;
  void tell(const nlohmann::json& value) const;
  nlohmann::json hear() const;

 private:
  int fd_;
};

/// A device, a PD, a CQ, one memory region with a slot of `bytes` for every QP, and connected QPs.
class Side {
 public:
  /// `salt` makes the two sides' patterns differ.
  Side(const Shape& shape, const Line& line, std::uint8_t salt);
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  void post_recv(std::uint32_t qp, std::uint32_t count = 1);
  /// Posts `count` WRs in one call, the last of them signalled. `flags` for all.
  void post(std::uint32_t qp, enum ibv_wr_opcode opcode, std::uint32_t count, unsigned int flags = 0);
  /// Takes completions that are there, every one of which has to be a success. wr_id is the number of the QP.
  std::span<const ibv_wc> poll();
  /// Asks for the event that sleep() waits for.
  void arm();
  /// Sleeps until there are completions; asks for the next event.
  void sleep();

  std::uint8_t* slot(std::uint32_t qp) { return memory_.get() + std::size_t{qp} * shape_.bytes; }
  void fill_own();
  void fill(std::uint8_t value);
  /// Whether the first `qps` slots hold the pattern of the side with `salt`.
  bool holds(std::uint8_t salt, std::uint32_t qps) const;
  ibv::NicFacts facts() const { return *ibv::nic_facts(context_); }
  std::uint8_t salt() const { return salt_; }

 private:
  struct Card {
    union ibv_gid gid;
    std::uint64_t address;
    std::uint32_t rkey;
  };
  void connect(ibv_qp* qp, std::uint32_t dest_qpn) const;

  const ibv::VerbsTable& v_ = ibv::uroce_verbs();
  Shape shape_;
  std::uint8_t salt_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::unique_ptr<std::uint8_t[]> memory_;
  std::vector<ibv_qp*> qps_;
  std::vector<ibv_wc> completions_;
  Card peer_{};
};

}  // namespace uroce::bench
