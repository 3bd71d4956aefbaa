// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/host.h"

#include <algorithm>
#include <array>

#include "tests/judged/sim/srq_model.h"
#include "tests/judged/sim/violation.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::simulator {
namespace {

constexpr std::uint32_t kGuard = 64;
constexpr std::uint32_t kEverything = nic::kLocalWrite | nic::kRemoteWrite | nic::kRemoteRead | nic::kRemoteAtomic;

proto::Gid address(std::uint32_t number, bool ipv6) {
  const auto last = static_cast<std::uint8_t>(number + 1);
  if (!ipv6) return proto::Gid::from_v4(10, 0, 0, last);
  return proto::Gid{{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

/// Nobody here needs time to send. So a packet that is late can be as far behind as none is in reality.
Duration peer_packet_time(const NetworkPlan& network) {
  const engine::sim::Impairments& faults = network.link.impairments;
  return faults.reorder == 0 && faults.duplicate == 0 ? Duration{10} : Duration{0};
}

}  // namespace

Host::Host(Stage& stage, std::uint32_t number, const HostPlan& plan)
    : nic({.gids = {address(number, stage.scenario.network.ipv6)},
           .window_bytes = plan.window_bytes,
           .memory = this,
           .peer_packet_time = peer_packet_time(stage.scenario.network)}),
      stage_(stage),
      number_(number),
      plan_(plan),
      gid_(address(number, stage.scenario.network.ipv6)),
      cq_sizes_(plan.cqs),
      flicker_(engine::sim::Random{stage.scenario.seed}.split(3000 + number)) {
  words_at_ = reserve(8 * kWords);
  locked_at_ = reserve(4096);
  for (const SrqPlan& srq : plan.srqs) {
    const std::uint64_t seed = engine::sim::Random{stage.scenario.seed}.split(5000 + 64 * number + srqs_.size()).next();
    srqs_.push_back(
        std::make_unique<SharedQueue>(stage, *this, srq, seed, fmt::format("host {} SRQ {}", number, srqs_.size())));
  }
}
Host::~Host() = default;

Extent Host::reserve(std::uint32_t length) {
  const std::uint32_t begin = (memory_size_ + kGuard + 63) / 64 * 64;
  memory_size_ = begin + length;
  return {begin, length};
}

void Host::build() {
  memory_ = std::make_unique<Memory>(memory_size_ + kGuard, stage_.scenario.seed * 64 + number_);
  pd = nic.alloc_pd();
  words_mr = register_memory(words_at_, kEverything);
  locked_mr = register_memory(locked_at_, nic::kLocalWrite);
  for (std::size_t i = 0; i < kWords; ++i) {
    std::uint64_t initial = 0;
    std::memcpy(&initial, memory_->actual(word(i)).data(), 8);
    words_.emplace_back(initial);
    memory_->open(word(i));
  }
  for (const std::uint32_t size : cq_sizes_) {
    const std::uint32_t needed = std::max(1u, size);
    cqs_.push_back(*nic.create_cq(plan_.cqs_may_overflow ? std::max(1u, needed / 4) : needed, nullptr));
  }
  node = stage_.world.attach(nic, {gid_});
  for (auto& srq : srqs_) srq->build();
}

void Host::destroy() {
  for (auto& srq : srqs_) srq->destroy();
}

void Host::arriving(const proto::PacketView& view, const proto::Path& path) {
  if (view.dest_qp() == nic::kMulticastQpn) {
    for (const Member& member : members_) {
      if (member.group == path.destination) member.owner->on_arrival(view, path);
    }
  } else if (QpOwner* const owner = find_owner(view.dest_qp())) {
    owner->on_arrival(view, path);
  }
}

void Host::join(QpOwner& owner, nic::Qp* qp, const proto::Gid& group) {
  if (nic.attach_multicast(qp, group) != 0) incorrect("host {}: joining a group fails", number_);
  members_.push_back({group, &owner});
  stage_.world.join(node, group);
}

void Host::leave(QpOwner& owner, nic::Qp* qp, const proto::Gid& group) {
  if (nic.detach_multicast(qp, group) != 0) incorrect("host {}: leaving a group fails", number_);
  std::erase_if(members_, [&](const Member& m) { return m.owner == &owner && m.group == group; });
  left(group);
}

bool Host::is_member(const QpOwner& owner) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member& m) { return m.owner == &owner; });
}

void Host::leave_all(QpOwner& owner) {
  const std::vector<Member> before = members_;
  std::erase_if(members_, [&](const Member& m) { return m.owner == &owner; });
  for (const Member& member : before) left(member.group);
}

/// The network brings what somebody wants.
void Host::left(const proto::Gid& group) {
  const auto in_it = [&](const Member& m) { return m.group == group; };
  if (std::none_of(members_.begin(), members_.end(), in_it)) stage_.world.leave(node, group);
}

void Host::foresee(Extent extent, Bytes bytes) {
  memory_->foresee(extent, bytes);
  foreseen_.push_back(extent);
}

void Host::stepped() {
  about([&] { return fmt::format("host {}", number_); },
        [&] {
          for (const Extent& extent : foreseen_) memory_->confirm(extent);
        });
  foreseen_.clear();
  for (auto& srq : srqs_) srq->check();
}

nic::Mr* Host::register_memory(Extent extent, std::uint32_t access, nic::MrKind kind) {
  const auto mr = nic.mrs().add(pd, memory_->data() + extent.begin, extent.length, va(extent.begin), access, kind);
  if (!mr) incorrect("host {}: registering memory fails with errno {}", number_, mr.error());
  return *mr;
}

void Host::bring_back(Extent extent) {
  std::erase_if(gone_, [&](const Extent& e) { return e.begin == extent.begin; });
}

bool Host::read_with_crc(std::uint8_t* to, const std::uint8_t* from, std::size_t size, std::uint32_t& crc) {
  return is_there(to, size) && is_there(from, size) && nic::steady_memory().read_with_crc(to, from, size, crc);
}
bool Host::read(void* to, const void* from, std::size_t size) {
  return is_there(to, size) && is_there(from, size) && nic::steady_memory().read(to, from, size);
}
bool Host::write(void* to, const void* from, std::size_t size) { return read(to, from, size); }

std::optional<std::uint64_t> Host::fetch_add(std::uint64_t* at, std::uint64_t operand) {
  return is_there(at, sizeof *at) ? nic::steady_memory().fetch_add(at, operand) : std::nullopt;
}

std::optional<std::uint64_t> Host::compare_swap(std::uint64_t* at, std::uint64_t expected, std::uint64_t desired) {
  return is_there(at, sizeof *at) ? nic::steady_memory().compare_swap(at, expected, desired) : std::nullopt;
}

bool Host::store(std::uint64_t* at, std::uint64_t value) {
  return is_there(at, sizeof *at) && nic::steady_memory().store(at, value);
}

/// Packets, the other side of each copy, are always there.
bool Host::is_there(const void* address_of, std::uint64_t length) {
  const auto* const memory = static_cast<const std::uint8_t*>(address_of);
  if (std::less<>()(memory, memory_->data()) || !std::less<>()(memory, memory_->data() + memory_->size())) return true;
  const auto begin = static_cast<std::uint64_t>(memory - memory_->data());
  const auto touches = [&](const Extent& e) { return begin < e.end() && begin + length > e.begin; };
  if (touches(words_at_) && flicker_.chance(plan_.flicker)) {
    stage_.tally.add("on-demand memory not there when asked for");
    return false;
  }
  return std::none_of(gone_.begin(), gone_.end(), touches);
}

Bytes Host::at(std::uint64_t address, std::size_t size) const {
  const std::uint64_t offset = address - va(0);
  if (offset > memory_->size() || size > memory_->size() - offset) return {};
  return memory_->actual({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)});
}

void Host::add(QpOwner& owner, std::uint32_t qpn) {
  const std::uint32_t local = qpn & 0xFFFF;
  if (local >= owners_.size()) owners_.resize(local + 1);
  owners_[local] = &owner;
}
void Host::remove(std::uint32_t qpn) { owners_[qpn & 0xFFFF] = nullptr; }

QpOwner* Host::find_owner(std::uint32_t qpn) {
  const std::uint32_t local = qpn & 0xFFFF;
  return local < owners_.size() ? owners_[local] : nullptr;
}

QpOwner& Host::owner_of(std::uint32_t qpn) {
  QpOwner* const owner = find_owner(qpn);
  if (owner == nullptr) incorrect("host {}: a completion for QP 0x{:x}, which does not exist", number_, qpn);
  return *owner;
}

void Host::look() {
  if (scheduled_) return;
  poll_events();
  if (std::all_of(cqs_.begin(), cqs_.end(), [](const nic::Cq* cq) { return cq->size() == 0; })) return;
  if (plan_.poll_delay == Duration{}) return run();
  scheduled_ = true;
  stage_.world.after(plan_.poll_delay, [this] {
    scheduled_ = false;
    run();
  });
}

void Host::run() {
  const std::size_t limit = plan_.poll_delay == Duration{} ? ~std::size_t{0} : plan_.poll_batch;
  poll_events();
  for (std::uint32_t cq = 0; cq < cqs_.size(); ++cq) poll(cq, limit);
  for (auto& srq : srqs_) srq->work();
  for (QpOwner* owner : owners_) {
    if (owner != nullptr) owner->work();
  }
  stage_.world.kick(node);  // Looks again when the packets have been taken.
}

void Host::drain() {
  poll_events();
  for (std::uint32_t cq = 0; cq < cqs_.size(); ++cq) poll(cq, ~std::size_t{0});
}

std::size_t Host::poll(std::uint32_t number, std::size_t limit) {
  nic::Cq& cq = *cqs_[number];
  std::array<nic::Completion, 16> batch;
  std::size_t total = 0;
  while (total < limit) {
    if (cq.overflowed()) on_overflow(&cq);
    const std::size_t taken = cq.poll(std::span(batch).first(std::min(batch.size(), limit - total)));
    for (std::size_t i = 0; i < taken; ++i) {
      if (tamper) tamper(batch[i]);
      owner_of(batch[i].qpn).on_completion(batch[i]);
    }
    total += taken;
    if (taken == 0) break;
  }
  return total;
}

void Host::poll_events() {
  for (const nic::Cq* cq : cqs_) {
    if (cq->overflowed()) on_overflow(cq);  // It takes along the QPs that have come to it since.
  }
  while (const auto event = nic.poll_event()) {
    if (event->kind == nic::Event::Kind::kCqErr) on_overflow(event->cq);
    if (event->qp != nullptr) owner_of(event->qp->qpn()).on_event(event->kind);
    for (auto& srq : srqs_) {
      if (event->srq != nullptr && srq->get() == event->srq) srq->on_limit_reached();
    }
  }
  for (const auto& srq : srqs_) srq->events_polled();
}

void Host::on_overflow(const nic::Cq* cq) {
  stage_.tally.add("event: CQ overflow");
  if (!plan_.cqs_may_overflow) incorrect("host {}: a CQ of {} entries overflows", number_, cq->capacity());
  for (QpOwner* owner : owners_) {
    if (owner != nullptr) owner->on_cq_overflow(cq);
  }
}

void Host::check() {
  about([&] { return fmt::format("host {}", number_); }, [&] { memory_->check(); });
}

void Host::check_words() {
  for (std::size_t i = 0; i < kWords; ++i) {
    std::uint64_t final = 0;
    std::memcpy(&final, memory_->actual(word(i)).data(), 8);
    about([&] { return fmt::format("host {} word {}", number_, i); }, [&] { words_[i].check(final); });
  }
}

}  // namespace uroce::simulator
