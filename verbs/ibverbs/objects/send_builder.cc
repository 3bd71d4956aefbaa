// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/objects/send_builder.h"

#include <cerrno>
#include <new>

#include "verbs/ibverbs/catalogue/errors.h"

namespace uroce::ibv {
namespace {

constexpr const char* kNoMemory = "no memory for the WRs between ibv_wr_start() and ibv_wr_complete()";

}  // namespace

void SendBuilder::start() {
  if (is_inherited()) {
    started_ = false;
    return;
  }
  while (busy_.test_and_set(std::memory_order_acquire)) busy_.wait(true, std::memory_order_relaxed);
  started_ = true;
}

void SendBuilder::abort() {
  if (!started_) return;
  started_ = false;
  error_ = 0;
  wrs_.clear();
  data_.clear();
  sges_.clear();
  bytes_.clear();
  busy_.clear(std::memory_order_release);
  busy_.notify_one();
}

int SendBuilder::error() const {
  if (is_inherited()) return refuse_without_nic();
  return started_ ? error_ : refuse(EINVAL, "ibv_wr_start() comes first");
}

void SendBuilder::fail(int error, const char* sentence) {
  if (started_ && error_ == 0) error_ = refuse(error, sentence);
}

struct ibv_send_wr* SendBuilder::add(std::uint64_t wr_id, unsigned int flags, enum ibv_wr_opcode opcode,
                                     std::uint64_t send_op) {
  if (!started_ || error_ != 0) return nullptr;
  if ((send_ops_ & send_op) == 0) {
    fail(EINVAL, "the QP was created without this operation in send_ops_flags");
    return nullptr;
  }
  if (wrs_.size() >= cap_.max_send_wr) {  // The queue could not take them all; and this list must not grow for ever.
    fail(ENOMEM, "more WRs between ibv_wr_start() and ibv_wr_complete() than the send queue has room for");
    return nullptr;
  }
  try {
    data_.push_back({sges_.size(), bytes_.size()});
    wrs_.emplace_back();
  } catch (const std::bad_alloc&) {
    fail(ENOMEM, kNoMemory);
    return nullptr;
  }
  struct ibv_send_wr& wr = wrs_.back();
  wr.wr_id = wr_id;
  wr.opcode = opcode;
  wr.send_flags = flags & ~static_cast<unsigned int>(IBV_SEND_INLINE);  // set_inline() says so.
  return &wr;
}

struct ibv_send_wr* SendBuilder::last() {
  if (!started_ || error_ != 0) return nullptr;
  if (!wrs_.empty()) return &wrs_.back();
  fail(EINVAL, "data or an address before the first operation");
  return nullptr;
}

void SendBuilder::set_sges(const struct ibv_sge* list, std::size_t count) {
  struct ibv_send_wr* const wr = last();
  if (wr == nullptr) return;
  if (count > cap_.max_send_sge) return fail(EINVAL, "more SGEs than max_send_sge");
  // Instead of what was there, if anything was.
  Data& data = data_.back();
  sges_.resize(data.sge);
  bytes_.resize(data.byte);
  try {
    sges_.insert(sges_.end(), list, list + count);
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, kNoMemory);
  }
  data.is_inline = false;
  wr->send_flags &= ~static_cast<unsigned int>(IBV_SEND_INLINE);
  wr->num_sge = static_cast<int>(count);
}

void SendBuilder::set_atomic_value(const void* value) {
  constexpr std::size_t kBytes = 8;
  const struct ibv_data_buf buffer { const_cast<void*>(value), kBytes };
  set_inline(&buffer, 1, kBytes);
}

void SendBuilder::set_flush(nic::FlushTarget target) {
  if (last() != nullptr) data_.back().flush = target;
}

void SendBuilder::set_inline(const struct ibv_data_buf* list, std::size_t count, std::size_t most) {
  struct ibv_send_wr* const wr = last();
  if (wr == nullptr) return;
  Data& data = data_.back();
  sges_.resize(data.sge);
  bytes_.resize(data.byte);
  try {
    for (std::size_t i = 0; i < count; ++i) {
      if (list[i].length > most - (bytes_.size() - data.byte)) {
        return fail(EINVAL, "more inline data than max_inline_data");
      }
      const auto* const from = static_cast<const std::uint8_t*>(list[i].addr);
      bytes_.insert(bytes_.end(), from, from + list[i].length);
    }
    sges_.push_back({0, static_cast<std::uint32_t>(bytes_.size() - data.byte), 0});
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, kNoMemory);
  }
  data.is_inline = true;
  wr->send_flags |= IBV_SEND_INLINE;
  wr->num_sge = 1;
}

std::vector<struct ibv_send_wr>& SendBuilder::finish() {
  for (std::size_t i = 0; i < wrs_.size(); ++i) {
    const Data& data = data_[i];
    wrs_[i].sg_list = sges_.data() + data.sge;
    if (data.is_inline) sges_[data.sge].addr = reinterpret_cast<std::uintptr_t>(bytes_.data() + data.byte);
  }
  return wrs_;
}

}  // namespace uroce::ibv
