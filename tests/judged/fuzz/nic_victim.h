// SPDX-License-Identifier: Apache-2.0
// A NIC that is about to be maltreated, and what must hold whatever comes: only granted memory changes or leaks,
// completions are those that are owed, and it comes to rest.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "proto/packet.h"
#include "tests/judged/fuzz/nic_commands.h"
#include "tests/judged/fuzz/work_model.h"
#include "verbs/nic/device/nic.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::fuzz {

using proto::Gid;
using proto::Psn;

/// What may have changed memory in a step.
enum MemoryWriter : std::uint8_t { kByPeer = 1, kByOwnWrs = 2 };

/// The memory and its regions. Bytes that peers may read have the top bit clear, all others have it set: one look at
/// what the NIC sends tells whether it comes from where it may come from.
class VictimMemory {
 public:
  VictimMemory();

  struct Place {
    std::size_t begin, size;  ///< In the memory.
    std::uint64_t iova;
    std::uint32_t access;
    bool in_qp_pd;
  };
  static const Place& place(std::uint8_t region);
  std::uint8_t* data(std::uint8_t region) { return bytes_.data() + place(region).begin; }

  void grant_region(std::uint8_t region);
  void grant_sge(std::uint8_t region, std::int64_t offset, std::uint64_t length);
  void revoke_sges(std::uint8_t region) { revoke(region, kByOwnWrs); }
  void revoke_region(std::uint8_t region) { revoke(region, kByOwnWrs | kByPeer); }
  /// Aborts when a byte has changed since the last call that nobody in `writers` may change.
  void check(std::uint8_t writers);

 private:
  void revoke(std::uint8_t region, int writers);

  std::vector<std::uint8_t> bytes_, before_;
  std::vector<std::uint8_t> writers_;  ///< For each byte.
};

/// One QP, with what its peer and its owner know of it.
struct VictimQp {
  nic::Qp* qp = nullptr;
  std::uint32_t peer_qpn = 0;
  WorkModel sends, receives;
  Psn expected;        ///< Next request PSN that the victim wants, as far as its answers tell.
  Psn open, sent_end;  ///< Oldest PSN of the victim that is not acknowledged, and one past its newest.
  struct Request {
    Psn psn;
    proto::Kind kind;
    std::uint32_t length, packets;  ///< The answer's.
  };
  std::deque<Request> requests;  ///< Sent and not answered.
};

class Victim {
 public:
  explicit Victim(const Setup& setup);
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  ~Victim();  ///< Destroys everything, checks that all that is owed has come.

  // What a script may do. Calls that fail fail as the verbs say.
  void deliver(std::uint8_t index, Bytes packet, const proto::Path& path);
  void advance(Duration time);
  void post_recv(const RecvSpec& spec);
  void post_send(const SendSpec& spec);
  void modify(const ModifySpec& spec);
  void change_region(const RegisterSpec& spec);
  /// Takes everything the NIC has to send, and looks at it.
  void drain();
  /// Polls and checks what must hold between any two steps.
  void check();

  VictimQp& qp(std::uint8_t index) { return qps_[index % qps_.size()]; }
  std::uint32_t key(std::uint8_t region) const { return keys_[region]; }
  std::uint32_t mtu() const { return proto_mtu_; }
  static constexpr std::uint32_t kQkey = 0x11111111;
  nic::QpType type() const;
  Instant now() const { return now_; }
  std::optional<Instant> next_deadline() const { return nic_.next_deadline(); }
  /// The path of the peer's packets.
  proto::Path path_to_victim() const { return {.source = peer_, .destination = address_}; }
  bool completions_are_lost() const { return (setup_.flags & Setup::kTinyCq) != 0; }

 private:
  static constexpr std::uint32_t kMaxSge = 4, kMaxWr = 32;
  nic::QpAttr attributes(const VictimQp& qp) const;
  std::uint32_t needs(nic::QpState from, nic::QpState to) const;
  void create(VictimQp& qp);
  void connect(VictimQp& qp);
  void forget_work(VictimQp& qp);
  std::uint32_t sges(const RecvSpec& spec, bool is_inline, std::uint16_t usual_length);
  bool names_a_region(const proto::PacketView& packet) const;
  void look_at(Bytes packet, const proto::Path& path);
  void learn_request(VictimQp& qp, const proto::PacketView& packet);
  void learn_answer(VictimQp& qp, const proto::PacketView& packet);

  Setup setup_;
  std::uint32_t proto_mtu_;
  Gid address_, peer_;
  Instant now_{std::chrono::seconds(1000)};
  VictimMemory memory_;
  nic::Nic nic_;
  nic::Pd* pd_;
  nic::Pd* other_pd_;
  nic::Cq* cq_;
  std::array<nic::Mr*, kRegions> mrs_{};
  std::array<std::uint32_t, kRegions> keys_{};  ///< The last key that each region had.
  std::array<VictimQp, 2> qps_;
  std::uint64_t next_id_ = 1;
  std::array<nic::Sge, 5> sges_;
  std::vector<std::uint8_t> frame_;
};

}  // namespace uroce::fuzz
