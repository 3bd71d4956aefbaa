// SPDX-License-Identifier: Apache-2.0
// One simulated machine: a NIC, its memory, its CQs, and the loop of a program that polls them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/sim/world.h"
#include "tests/judged/sim/atomic_word.h"
#include "tests/judged/sim/memory.h"
#include "tests/judged/sim/qp_owner.h"
#include "tests/judged/sim/scenario.h"
#include "tests/judged/sim/tally.h"
#include "verbs/nic/device/nic.h"

namespace uroce::simulator {

/// What the parts of a run share.
struct Stage {
  const Scenario& scenario;
  engine::sim::World& world;
  class WireLint& lint;
  class UnackedLint& unacked_lint;
  std::uint64_t next_id = 1;  ///< wr_id of the next WR.
  bool faults_over = false;
  Tally tally{};
};

class SharedQueue;

class Host : private nic::UserMemory {
 public:
  static constexpr std::size_t kWords = 4;

  Host(Stage& stage, std::uint32_t number, const HostPlan& plan);
  ~Host();

  /// Sets memory aside, with a guard in front of it. Only before build().
  Extent reserve(std::uint32_t length);
  /// Adds the WRs of a QP to what a CQ must hold.
  void reserve_cq(std::uint32_t cq, std::uint32_t completions) { cq_sizes_[cq] += completions; }
  void build();
  /// All QPs are gone.
  void destroy();
  void add(QpOwner& owner, std::uint32_t qpn);
  void remove(std::uint32_t qpn);
  QpOwner* find_owner(std::uint32_t qpn);

  /// A UD QP enters a multicast group, or leaves it.
  void join(QpOwner& owner, nic::Qp* qp, const proto::Gid& group);
  void leave(QpOwner& owner, nic::Qp* qp, const proto::Gid& group);
  bool is_member(const QpOwner& owner) const;
  /// The QP is gone, and with it its memberships.
  void leave_all(QpOwner& owner);

  /// The packet that arrives now leaves these bytes there.
  void foresee(Extent extent, Bytes bytes);
  /// An undamaged packet is about to be given to the NIC ...
  void arriving(const proto::PacketView& view, const proto::Path& path);
  /// ... and the NIC has dealt with it, or with its timers.
  void stepped();

  template <class Fn>
  void for_each_owner(Fn fn) const {
    for (QpOwner* owner : owners_) {
      if (owner != nullptr) fn(*owner);
    }
  }

  /// Looks whether there is anything to poll; polls now or later, as the plan says.
  void look();
  void poll_events();
  /// Polls until all CQs are empty.
  void drain();
  /// Checks that no memory has changed that must not, and that the CQs are empty.
  void check();
  void check_words();

  std::uint64_t va(std::uint32_t offset) const { return (std::uint64_t{number_} + 1) << 32 | offset; }
  /// The bytes at a virtual address; empty when it is none of this host's.
  Bytes at(std::uint64_t address, std::size_t size) const;
  nic::Mr* register_memory(Extent extent, std::uint32_t access, nic::MrKind kind = nic::MrKind::kPlain);
  /// Memory that on-demand regions do not find any more, until it is brought back.
  void take_away(Extent extent) { gone_.push_back(extent); }
  void bring_back(Extent extent);
  /// The memory of the words comes and goes, as if a thread of the program moved it all the time.
  bool flickers() const { return plan_.flicker != 0; }
  Extent locked() const { return locked_at_; }
  Extent word(std::size_t i) const { return {words_at_.begin + static_cast<std::uint32_t>(8 * i), 8}; }

  std::uint32_t number() const { return number_; }
  const proto::Gid& gid() const { return gid_; }
  Memory& memory() { return *memory_; }
  AtomicWord& history(std::size_t word) { return words_[word]; }
  nic::Cq* cq(std::uint32_t i) { return cqs_[i]; }
  SharedQueue* srq(std::uint32_t i) { return i < srqs_.size() ? srqs_[i].get() : nullptr; }

  nic::Nic nic;
  engine::sim::NodeId node{};
  nic::Pd* pd = nullptr;
  nic::Mr* words_mr = nullptr;
  nic::Mr* locked_mr = nullptr;                  ///< Grants nothing to peers.
  std::function<void(nic::Completion&)> tamper;  ///< Changes completions, to test the oracle.

 private:
  bool read(void* to, const void* from, std::size_t size) override;
  bool write(void* to, const void* from, std::size_t size) override;
  bool read_with_crc(std::uint8_t* to, const std::uint8_t* from, std::size_t size, std::uint32_t& crc) override;
  std::optional<std::uint64_t> fetch_add(std::uint64_t* at, std::uint64_t operand) override;
  std::optional<std::uint64_t> compare_swap(std::uint64_t* at, std::uint64_t expected, std::uint64_t desired) override;
  bool store(std::uint64_t* at, std::uint64_t value) override;
  bool is_there(const void* address_of, std::uint64_t length);
  std::size_t poll(std::uint32_t cq, std::size_t limit);
  void on_overflow(const nic::Cq* cq);
  void run();
  QpOwner& owner_of(std::uint32_t qpn);

  Stage& stage_;
  std::uint32_t number_;
  HostPlan plan_;
  proto::Gid gid_;
  std::uint32_t memory_size_ = 0;
  std::unique_ptr<Memory> memory_;
  Extent words_at_{}, locked_at_{};
  std::vector<AtomicWord> words_;
  std::vector<std::uint32_t> cq_sizes_;
  std::vector<nic::Cq*> cqs_;
  std::vector<std::unique_ptr<SharedQueue>> srqs_;
  struct Member {
    proto::Gid group;
    QpOwner* owner;
  };
  void left(const proto::Gid& group);
  std::vector<Member> members_;   ///< In the order in which they were attached, in which they are served.
  std::vector<Extent> foreseen_;  ///< For the packet that arrives now.
  std::vector<QpOwner*> owners_;  ///< By local part of the QPN.
  bool scheduled_ = false;
  std::vector<Extent> gone_;
  engine::sim::Random flicker_;
};

}  // namespace uroce::simulator
