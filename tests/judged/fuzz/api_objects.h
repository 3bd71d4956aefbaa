// SPDX-License-Identifier: Apache-2.0
// What a program holds of the verbs, and what it may expect of them: which objects use which, what completes when.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/judged/fuzz/work_model.h"
#include "verbs/ibverbs/catalogue/verbs_table.h"

namespace uroce::fuzz {

struct ApiContext {
  struct ibv_context* verbs = nullptr;
  int device = 0;
};
struct ApiPd {
  struct ibv_pd* verbs = nullptr;
  ApiContext* context = nullptr;
};
struct ApiMr {
  struct ibv_mr* verbs = nullptr;
  ApiPd* pd = nullptr;
};
struct ApiChannel {
  struct ibv_comp_channel* verbs = nullptr;
  ApiContext* context = nullptr;
};
struct ApiCq {
  struct ibv_cq* verbs = nullptr;
  ApiContext* context = nullptr;
  ApiChannel* channel = nullptr;
  unsigned unacknowledged = 0;  ///< Events that the program has and has not acknowledged.
  bool may_overflow = false;    ///< More is or was posted than it holds: nothing is certain any more.
};
struct ApiQp {
  struct ibv_qp* verbs = nullptr;
  ApiPd* pd = nullptr;
  ApiCq* send_cq = nullptr;
  ApiCq* recv_cq = nullptr;
  bool signal_all = false;
  enum ibv_qp_state state = IBV_QPS_RESET;
  WorkModel sends, receives;
  std::uint64_t first_id = 0;  ///< Completions of WRs before this one are of the time before a RESET.
};

template <class T>
class Table {
 public:
  explicit Table(std::size_t most) : most_(most) {}
  std::size_t size() const { return items_.size(); }
  bool full() const { return items_.size() >= most_; }
  T* add(T item) { return items_.emplace_back(std::make_unique<T>(std::move(item))).get(); }
  T* at(std::size_t index) const { return items_.empty() ? nullptr : items_[index % items_.size()].get(); }
  void remove(const T* item) {
    std::erase_if(items_, [item](const auto& other) { return other.get() == item; });
  }
  template <class Predicate>
  void remove_if(Predicate predicate) {
    std::erase_if(items_, [&](const auto& item) { return predicate(*item); });
  }
  template <class Predicate>
  bool any(Predicate predicate) const {
    return std::any_of(items_.begin(), items_.end(), [&](const auto& item) { return predicate(*item); });
  }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::size_t most_;
  std::vector<std::unique_ptr<T>> items_;
};

/// All objects of a program.
struct ApiObjects {
  Table<ApiContext> contexts{3};
  Table<ApiPd> pds{4};
  Table<ApiMr> mrs{6};
  Table<ApiChannel> channels{2};
  Table<ApiCq> cqs{4};
  Table<ApiQp> qps{5};

  bool uses(const ApiPd& pd) const {
    return mrs.any([&](const ApiMr& mr) { return mr.pd == &pd; }) ||
           qps.any([&](const ApiQp& q) { return q.pd == &pd; });
  }
  bool uses(const ApiCq& cq) const {
    return qps.any([&](const ApiQp& q) { return q.send_cq == &cq || q.recv_cq == &cq; });
  }
  bool uses(const ApiChannel& channel) const {
    return cqs.any([&](const ApiCq& cq) { return cq.channel == &channel; });
  }
};

}  // namespace uroce::fuzz
