// SPDX-License-Identifier: Apache-2.0
// Which QPs hear which multicast groups.
#pragma once

#include <algorithm>
#include <cerrno>
#include <vector>

#include "verbs/nic/model/limits.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::nic {

class MulticastTable {
 public:
  /// ENOMEM: too many groups, or too many QPs in this one.
  Errno attach(Qp* qp, const Gid& group) {
    std::vector<Gid> groups;
    std::uint32_t in_this = 0;
    for (const Member& member : members_) {
      if (member.group == group) ++in_this;
      if (std::find(groups.begin(), groups.end(), member.group) == groups.end()) groups.push_back(member.group);
    }
    if (in_this == kMaxMulticastQps || (in_this == 0 && groups.size() == kMaxMulticastGroups)) return ENOMEM;
    members_.push_back({group, qp});
    return 0;
  }
  /// EINVAL: it is not attached.
  Errno detach(const Qp* qp, const Gid& group) {
    const auto is_it = [&](const Member& m) { return m.qp == qp && m.group == group; };
    return std::erase_if(members_, is_it) == 0 ? EINVAL : 0;
  }
  bool is_attached(const Qp* qp, const Gid& group) const {
    return std::any_of(members_.begin(), members_.end(),
                       [&](const Member& m) { return m.qp == qp && m.group == group; });
  }
  std::vector<Gid> groups_of(const Qp* qp) const {
    std::vector<Gid> groups;
    for (const Member& m : members_) {
      if (m.qp == qp) groups.push_back(m.group);
    }
    return groups;
  }
  /// Calls fn(qp) for each QP in `group`, in the order in which they were attached. False when there is none.
  template <class Fn>
  bool for_each_in(const Gid& group, Fn fn) const {
    bool any = false;
    for (const Member& member : members_) {
      if (member.group != group) continue;
      any = true;
      fn(*member.qp);
    }
    return any;
  }
  void forget(const Qp* qp) {
    std::erase_if(members_, [qp](const Member& m) { return m.qp == qp; });
  }

 private:
  struct Member {
    Gid group;
    Qp* qp;
  };
  std::vector<Member> members_;
};

}  // namespace uroce::nic
