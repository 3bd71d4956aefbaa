// SPDX-License-Identifier: Apache-2.0
// What the calls of every verb need: a device with one of each object, and two connected QPs.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "verbs/ibverbs/catalogue/newer.h"

// The header hides some functions behind macros of the same name.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct ibv_sa_path_rec;
struct ib_user_path_rec;
struct ib_uverbs_ah_attr;
struct ib_uverbs_qp_attr;

extern "C" {
#define UROCE_VERB(ret, name, params, args, version) ret name params;
#include "verbs/ibverbs/catalogue/functions.def"
#include "verbs/ibverbs/catalogue/functions_extra.def"
#include "verbs/ibverbs/catalogue/functions_newer.def"
#undef UROCE_VERB
}

namespace uroce::every_verb {

inline constexpr int kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// Fails the program, with the place, when something that must work does not.
void require(bool works, const char* what, int line);
#define REQUIRE(condition) ::uroce::every_verb::require((condition), #condition, __LINE__)

/// Any number in an enumeration, as C programs can.
template <class Enum>
Enum number(int value) {
  Enum e;
  static_assert(sizeof e == sizeof value);
  std::memcpy(&e, &value, sizeof e);
  return e;
}

struct Lab {
  Lab();
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  struct ibv_qp* make_qp(enum ibv_qp_type type);
  /// Takes an RC QP to INIT, RTR and RTS, connected to `peer` on the same device.
  void connect(struct ibv_qp* qp, const struct ibv_qp* peer);
  struct ibv_ah_attr ah_attr() const;
  struct ibv_sge sge(std::size_t offset, std::uint32_t length) {
    return {reinterpret_cast<std::uintptr_t>(memory + offset), length, mr->lkey};
  }
  /// Polls until a completion is there.
  struct ibv_wc completion(struct ibv_cq* from);

  struct ibv_device** list = nullptr;
  struct ibv_context* context = nullptr;
  struct ibv_pd* pd = nullptr;
  struct ibv_comp_channel* channel = nullptr;
  struct ibv_cq* cq = nullptr;               ///< With the channel.
  struct ibv_qp *a = nullptr, *b = nullptr;  ///< RC, connected with each other.
  struct ibv_mr* mr = nullptr;               ///< All of `memory`.
  union ibv_gid gid {};
  std::uint8_t* memory = nullptr;
  static constexpr std::size_t kMemory = 16384;
};

}  // namespace uroce::every_verb
