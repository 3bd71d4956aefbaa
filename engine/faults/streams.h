// SPDX-License-Identifier: Apache-2.0
// Which packet is it? Names of packets that are the same in every run of a program, whatever QP numbers and PSNs it was
// given and whatever else was under way; and a memory of those that chance has struck.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "proto/path.h"
#include "proto/qp_identity.h"

namespace uroce::engine::faults {

/// What a NIC tells of one of its QPs; nothing when it has no such QP.
using Identify = std::function<std::optional<proto::QpIdentity>(std::uint32_t qpn)>;

/// A stream: the requests, or the responses, of one QP in one direction. A healthy network keeps its order.
using StreamId = std::uint64_t;
enum class Traffic : std::uint8_t {
  kSentRequests,
  kSentResponses,
  kReceivedRequests,
  kReceivedResponses,
  kRefusals,  ///< No packets of their own: requests that come to be refused for want of a receive.
  kCount
};

/// A packet that chance has struck.
struct Struck {
  std::int64_t place = 0;
  std::uint32_t losses = 0;  ///< How often it has been lost.
  bool through = false;      ///< It has not been lost the last time.
};

class Stream {
 public:
  Stream() = default;
  explicit Stream(proto::Psn first) : first_(first) {}
  proto::Psn first() const { return first_; }

  /// How far `psn` is from the first PSN, on and on when PSNs wrap around. Negative: older than the first.
  std::int64_t distance(proto::Psn psn);
  /// Null: chance has not struck it.
  const Struck* find(std::int64_t place) const;
  /// It was among those that were forgotten, or could have been.
  bool is_forgotten(std::int64_t place) const { return place < forgotten_below_; }
  /// Adds a stroke. Forgets the oldest of too many: they have arrived long ago, or a stranger made them up.
  void remember(std::int64_t place, bool lost);
  std::size_t remembered() const { return struck_.size(); }

 private:
  /// More than can be under way on one host. When faults strike more of what a long path holds, the oldest count as
  /// arrived.
  static constexpr std::size_t kMost = 512;
  proto::Psn first_;
  std::int64_t newest_ = 0;
  std::int64_t forgotten_below_ = std::numeric_limits<std::int64_t>::min();
  std::vector<Struck> struck_;  ///< By place.
};

/// The other end of a datagram.
struct Peer {
  proto::Gid address{};
  std::uint32_t qpn = 0;
  friend bool operator==(const Peer&, const Peer&) = default;
};

class Streams {
 public:
  /// Without `identify` QPs go by their numbers, and their PSNs begin with 0.
  explicit Streams(Identify identify) : identify_(std::move(identify)) {}

  struct Found {
    Stream& stream;
    StreamId id;
    std::uint64_t name;     ///< The same in every run; of streams of one program no two have the same.
    std::uint32_t nth = 0;  ///< Which QP: see QpIdentity. 0: none of ours.
    std::uint32_t mtu = 0;  ///< 0: not known.
  };
  /// The stream of our QP `qpn`. `peer`: of datagrams that are received, whose PSNs begin with any.
  Found of(Traffic traffic, std::uint32_t qpn, proto::Psn psn, const std::optional<Peer>& peer = std::nullopt);

  /// Which of the NIC's QPs it is; 0: none.
  std::uint32_t nth(std::uint32_t qpn) const { return identify(qpn).value_or(proto::QpIdentity{}).nth; }
  /// Struck packets that are remembered, of all streams.
  std::size_t remembered() const;

 private:
  /// More peers than these share a stream.
  static constexpr std::size_t kMostPeers = 64;
  struct OfQp {
    std::uint32_t nth = 0, life = 0;
    std::array<Stream, static_cast<std::size_t>(Traffic::kCount)> streams{};
    std::vector<std::pair<Peer, Stream>> peers{};
  };
  std::optional<proto::QpIdentity> identify(std::uint32_t qpn) const;
  void forget_the_dead();

  Identify identify_;
  std::unordered_map<std::uint32_t, OfQp> qps_;  ///< By QPN; 0: what is for none of our QPs.
  std::size_t look_for_dead_at_ = 64;
};

}  // namespace uroce::engine::faults
