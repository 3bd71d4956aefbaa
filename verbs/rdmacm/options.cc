// SPDX-License-Identifier: Apache-2.0
// SET_OPTION.
#include <algorithm>
#include <array>

#include "verbs/rdmacm/call.h"

namespace uroce::rdmacm {
namespace {

/// The first bytes of the value: no option has more.
using Value = std::array<std::uint8_t, 4>;

/// A value of exactly this type; nothing when the program gives another size, or none.
template <class T>
std::optional<T> value_of(const rdma_ucm_set_option& in, const Value& bytes) {
  if (in.optlen != sizeof(T) || in.optval == 0) return std::nullopt;
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

int set_id_option(const rdma_ucm_set_option& in, const Value& bytes, Id& id) {
  const auto byte = value_of<std::uint8_t>(in, bytes);
  const auto word = value_of<std::int32_t>(in, bytes);
  const bool can_still_choose = id.stage == Stage::kIdle || id.stage == Stage::kBound;
  switch (in.optname) {
    case RDMA_OPTION_ID_TOS:
      if (!byte) return EINVAL;
      id.options.tos = *byte;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (!word || (*word != 0 && id.stage == Stage::kListening)) return EINVAL;
      id.source.reuse = *word != 0;
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (!word || !can_still_choose) return EINVAL;
      id.source.only_family = *word != 0;
      id.options.family_chosen = true;
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (!byte || id.qp_type != IBV_QPT_RC) return EINVAL;
      id.options.ack_timeout = *byte;
      return 0;
    default:
      return ENOSYS;
  }
}

/// A path of the program's own choice: there is but one between two addresses here, and it is not asked for.
int set_ib_option(const rdma_ucm_set_option& in, const Id& id) {
  if (in.optname != RDMA_OPTION_IB_PATH) return ENOSYS;
  const bool is_whole = in.optlen != 0 && in.optlen % sizeof(ib_path_rec_data) == 0;
  return id.nic && is_whole && id.stage == Stage::kAddressResolved ? EOPNOTSUPP : EINVAL;
}

}  // namespace

int set_option(const Call& call) {
  const auto in = call.read<rdma_ucm_set_option>();
  const auto id = call.find(in.id);
  if (!id.ok()) return id.error();
  Value bytes{};
  const std::size_t read = in.optval == 0 ? 0 : std::min<std::size_t>(in.optlen, bytes.size());
  if (!copy_of_caller(bytes.data(), pointer(in.optval), read)) return EFAULT;
  if (in.level == RDMA_OPTION_ID) return set_id_option(in, bytes, **id);
  if (in.level == RDMA_OPTION_IB) return set_ib_option(in, **id);
  return ENOSYS;
}

}  // namespace uroce::rdmacm
