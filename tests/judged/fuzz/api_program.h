// SPDX-License-Identifier: Apache-2.0
// A program that calls the verbs as the input says, right or wrong, but never what no program may do: use an object
// after its destruction, lie about the memory it passes in. Each answer is compared with what ApiObjects knows.
#pragma once

#include "tests/judged/fuzz/api_objects.h"
#include "tests/judged/fuzz/archive.h"

namespace uroce::fuzz {

inline const ibv::VerbsTable& v() { return ibv::uroce_verbs(); }

/// Records of fuzz_api: the kind modulo kApiCalls. The body holds the arguments in the order in which api_program.cc
/// reads them; objects are named by index, modulo how many there are.
enum ApiCall : std::uint8_t {
  kOpenDevice,
  kCloseDevice,
  kAllocPd,
  kDeallocPd,
  kRegMr,
  kReregMr,
  kDeregMr,
  kCreateChannel,
  kDestroyChannel,
  kCreateCq,
  kResizeCq,
  kDestroyCq,
  kReqNotify,
  kGetCqEvent,
  kCreateQp,
  kDestroyQp,
  kModifyQp,  ///< Any mask, any attributes.
  kStepQp,    ///< A transition as it should be.
  kConnect,   ///< Two QPs, from any state to RTS.
  kQueryQp,
  kPostSends,
  kPostRecvs,
  kPollCq,
  kAdvance,  ///< Virtual time.
  kLose,     ///< Packets.
  kGetAsyncEvent,
  kQuery,  ///< Everything that only asks.
  kApiCalls
};

class ApiProgram {
 public:
  ApiProgram();
  ApiProgram(const ApiProgram&) = delete;
  ApiProgram& operator=(const ApiProgram&) = delete;
  ~ApiProgram();

  /// One PD, MR, CQ and QP on each of two devices, the QPs connected.
  void make_pair();
  void call(ApiCall which, Reader in);

 private:
  // api_program.cc
  void open_device(Reader& in);
  void close_device(ApiContext* context);
  void reg_mr(ApiPd& pd, Reader& in);
  void finish_reg(ApiPd& pd, struct ibv_mr* mr, bool may_succeed, bool must_succeed);
  void rereg_mr(ApiMr& mr, Reader& in);
  void create_cq(ApiContext& context, Reader& in);
  void resize_cq(ApiCq& cq, int cqe);
  void destroy_cq(ApiCq* cq);
  void query(ApiContext& context, Reader& in);
  struct Range {
    void* addr;
    std::size_t length;
    /// kAbsent: memory that a region on demand may have, since it may come later.
    enum class Kind : std::uint8_t { kWritable, kReadOnly, kAbsent, kImpossible } kind;
  };
  Range range(Reader& in);
  static bool may_register(const Range& range, unsigned access);
  static std::uint64_t address(std::uint32_t offset);
  static std::size_t memory_size();

  // api_queues.cc
  void create_qp(ApiPd& pd, Reader& in);
  void destroy_qp(ApiQp* qp);
  void forget_work(ApiQp& qp);
  void modify_qp(ApiQp& qp, Reader& in);
  void step_qp(ApiQp& qp, enum ibv_qp_state to, const ApiQp& peer);
  void connect(ApiQp& qp, const ApiQp& peer);
  void modify(ApiQp& qp, struct ibv_qp_attr& attr, int mask, bool must_succeed);
  enum ibv_qp_state ask_state(ApiQp& qp);
  void post_sends(ApiQp& qp, Reader& in);
  void post_recvs(ApiQp& qp, Reader& in);
  std::vector<struct ibv_sge> sges(Reader& in, bool is_inline);
  void poll_cq(ApiCq& cq, int count);
  void get_async_event(ApiContext& context);
  /// Marks CQs that more completions may come to than they hold.
  void look_for_overflow();

  ApiObjects o_;
  std::uint64_t next_id_ = 1;
};

}  // namespace uroce::fuzz
