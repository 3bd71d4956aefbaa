// SPDX-License-Identifier: Apache-2.0
// The WRs that a program builds with ibv_wr_start(), ibv_wr_send() ... ibv_wr_complete(): kept as ordinary WRs until
// they are complete, then posted in one go or not at all.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "verbs/ibverbs/host/fork.h"
#include "verbs/nic/model/types.h"

namespace uroce::ibv {

class SendBuilder {
 public:
  /// `send_ops`: the operations that the program has asked for (ibv_qp_create_send_ops_flags).
  explicit SendBuilder(std::uint64_t send_ops) : send_ops_(send_ops) {}
  /// Before anything else: what the QP takes.
  void set_cap(const struct ibv_qp_cap& cap) { cap_ = cap; }

  /// Begins a list, when the list of every other thread has ended. Not in a child of fork(): who has begun one may have
  /// stayed with the parent.
  void start();
  /// Ends the list without posting anything.
  void abort();

  /// Adds a WR. `wr_id` and `flags` are those of the ibv_qp_ex. Null when that, or anything before it, was wrong.
  struct ibv_send_wr* add(std::uint64_t wr_id, unsigned int flags, enum ibv_wr_opcode opcode, std::uint64_t send_op);
  /// The WR that add() has made last: data and addresses belong to it.
  struct ibv_send_wr* last();
  void set_sges(const struct ibv_sge* list, std::size_t count);
  void set_inline(const struct ibv_data_buf* list, std::size_t count) { set_inline(list, count, cap_.max_inline_data); }
  /// The 8 bytes of an ATOMIC WRITE, whose values are taken at once, whatever max_inline_data is.
  void set_atomic_value(const void* value);
  void set_flush(nic::FlushTarget target);
  /// The first thing that goes wrong, an errno value, is what ibv_wr_complete() will return.
  void fail(int error, const char* sentence);
  int error() const;

  /// The WRs, ready to be posted. Valid until the list ends.
  std::vector<struct ibv_send_wr>& finish();
  /// What the nth of them, a FLUSH, asks for beside what ibv_send_wr has room for.
  const nic::FlushTarget& flush(std::size_t nth) const { return data_[nth].flush; }

 private:
  /// Where the data of a WR begins in `sges_` and `bytes_`, which move while they grow.
  struct Data {
    std::size_t sge = 0;
    std::size_t byte = 0;
    bool is_inline = false;
    nic::FlushTarget flush{};
  };
  void set_inline(const struct ibv_data_buf* list, std::size_t count, std::size_t most);
  bool is_inherited() const { return forks_ != forks(); }

  const unsigned int forks_ = forks();
  const std::uint64_t send_ops_;
  struct ibv_qp_cap cap_ {};
  std::atomic_flag busy_;  ///< From start() to abort().
  bool started_ = false;
  int error_ = 0;
  std::vector<struct ibv_send_wr> wrs_;
  std::vector<Data> data_;  ///< One each.
  std::vector<struct ibv_sge> sges_;
  std::vector<std::uint8_t> bytes_;
};

/// Gives `qp` the functions behind ibv_wr_start() and its sisters.
void install_builders(struct ibv_qp_ex& qp);

}  // namespace uroce::ibv
