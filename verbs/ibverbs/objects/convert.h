// SPDX-License-Identifier: Apache-2.0
// Between the structures of <infiniband/verbs.h> and the values of verbs/nic.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstring>
#include <string>

#include "proto/base/result.h"
#include "verbs/nic/model/limits.h"
#include "verbs/nic/model/qp_state.h"
#include "verbs/nic/model/types.h"

namespace uroce::ibv {

/// The number that a C program stored in a variable of an enumeration, which need not be one of its enumerators: in
/// C++, just reading such a variable is undefined.
template <class Enum>
int raw(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

void to_wc(const nic::Completion& completion, struct ibv_wc& wc);
/// The LID that a datagram came from. 0: ports have none (UROCE_LID), or it is no datagram.
std::uint16_t slid_of(const nic::Completion& completion);

/// Room for the scatter/gather list of one WR.
using SgeArray = std::array<nic::Sge, nic::kMaxSge>;

/// The WR as the NIC wants it, its scatter/gather list copied to `sges`. EINVAL: an opcode or flag that does not exist
/// here, more SGEs than any QP takes.
Result<nic::SendWr, nic::Errno> from_wr(const struct ibv_send_wr& wr, SgeArray& sges);
Result<nic::RecvWr, nic::Errno> from_wr(const struct ibv_recv_wr& wr, SgeArray& sges);

/// A bind of `mw` under a new key.
nic::MwBind from_bind(const struct ibv_mw& mw, std::uint32_t new_key, const struct ibv_mw_bind_info& info);

/// Those attributes in `mask` that need no address resolution: all but IBV_QP_AV. `current`: the QP's state. EINVAL: a
/// value that no QP can have; EOPNOTSUPP: an attribute of a feature that the NIC lacks.
Result<nic::QpAttr, nic::Errno> from_attr(const struct ibv_qp_attr& attr, int mask, nic::QpState current);

/// Copies the attributes in `mask` from `from` to `to`.
void merge(struct ibv_qp_attr& to, const struct ibv_qp_attr& from, int mask);

/// NIC access bits of ibv_access_flags. EOPNOTSUPP: a kind of region that the NIC lacks; EINVAL: an unknown flag.
/// Optional flags are hints, and ignored.
Result<std::uint32_t, nic::Errno> from_access(unsigned int flags);
/// The same of a QP, where flags that only regions have mean nothing: programs pass a region's. EINVAL: an unknown
/// flag.
Result<std::uint32_t, nic::Errno> from_qp_access(unsigned int flags);

/// A sentence for people: which attributes of `mask` make the modification from `from` to `to` illegal.
std::string explain(nic::QpType type, nic::QpState from, nic::QpState to, int mask);

}  // namespace uroce::ibv
