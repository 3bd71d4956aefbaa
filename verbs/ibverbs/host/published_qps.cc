// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/published_qps.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <type_traits>

#include "proto/address.h"
#include "verbs/ibverbs/host/published_memory.h"
#include "verbs/record/text_field.h"

namespace uroce::ibv {

namespace {

/// Others read this with pread(), and may see some of a change.
template <class T>
void store(T& to, const T& from) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(&to, &from, sizeof from);
}

void add(std::uint64_t& count, std::uint64_t more) {
  std::atomic_ref(count).store(count + more, std::memory_order_relaxed);
}

const std::string kPrefix = std::string(kMemoryPrefix) + "uroce-qps-";

std::string qps_memory(const std::string& name) { return published_name("qps", name); }

}  // namespace

/// With QPN 0 it is empty. The last two members change with packets.
struct PublishedQps::Record {
  std::uint64_t qpn;
  LiveQp::Fixed fixed;
  LiveQp::Moving moving;
  QpCounts counts;
};

/// In front of the records.
struct PublishedQps::Head {
  static constexpr std::uint64_t kMagic = 0x3170'7171'0000'0000 + sizeof(Record);

  std::uint64_t magic;
  std::uint32_t pid, index;
  std::array<char, 32> program;
  std::array<char, 48> address;
};

struct PublishedQps::Memory {
  static constexpr std::uint32_t kRecords = 4096;  // A power of two; pages that nobody touches cost nothing.

  Head head;
  std::array<Record, kRecords> records;
};

std::unique_ptr<PublishedQps> PublishedQps::make(const std::string& name, std::uint32_t index,
                                                 const proto::Gid& address) {
  void* memory = nullptr;
  engine::Fd fd = publish_memory(qps_memory(name), sizeof(Memory), &memory);
  if (!fd) return nullptr;
  auto* const all = static_cast<Memory*>(memory);
  all->head.magic = Head::kMagic;
  all->head.pid = static_cast<std::uint32_t>(::getpid());
  all->head.index = index;
  record::set_text(all->head.program, program_invocation_short_name);
  record::set_text(all->head.address, proto::to_string(address));
  return std::unique_ptr<PublishedQps>(new PublishedQps(std::move(fd), all));
}

PublishedQps::PublishedQps(engine::Fd memory, Memory* all)
    : memory_(std::move(memory)), all_(all), is_changed_(Memory::kRecords), is_shown_(Memory::kRecords) {
  changed_.reserve(Memory::kRecords);
}

PublishedQps::~PublishedQps() { ::munmap(all_, sizeof(Memory)); }

void PublishedQps::show(const nic::Qp& qp) {
  Record& record = all_->records[qp.qpn() % Memory::kRecords];
  if (record.qpn != qp.qpn()) store(record.counts, QpCounts{});
  LiveQp::Fixed fixed;
  fixed.type = qp.type();
  fixed.attr = qp.attr();
  fixed.max_send_wr = qp.init().max_send_wr;
  fixed.max_recv_wr = qp.init().max_recv_wr;
  store(record.fixed, fixed);
  show_inside(record, qp);
  std::atomic_ref(record.qpn).store(qp.qpn(), std::memory_order_release);  // After what it stands for.
  is_shown_[index_of(record)] = true;
}

void PublishedQps::show_inside(Record& record, const nic::Qp& qp) {
  LiveQp::Moving moving;
  moving.state = qp.state();
  moving.inside = qp.inside();
  store(record.moving, moving);
}

void PublishedQps::hide(const nic::Qp& qp) {
  constexpr std::size_t kMostGone = 64;
  Record* const record = find(qp.qpn());
  if (record == nullptr) return;
  try {
    gone_order_.push_back(qp.qpn());
    gone_[qp.qpn()] = peer_of(*record);
    if (gone_order_.size() > kMostGone) {
      const std::uint32_t oldest = gone_order_.front();
      gone_order_.pop_front();
      if (std::ranges::find(gone_order_, oldest) == gone_order_.end()) gone_.erase(oldest);
    }
  } catch (const std::bad_alloc&) {
    // Recordings do without.
  }
  store(record->qpn, std::uint64_t{0});
  is_shown_[index_of(*record)] = false;
}

PublishedQps::Record* PublishedQps::find(std::uint32_t qpn) {
  Record& record = all_->records[qpn % Memory::kRecords];
  return record.qpn == qpn && qpn != 0 ? &record : nullptr;
}

std::uint32_t PublishedQps::index_of(const Record& record) const {
  return static_cast<std::uint32_t>(&record - all_->records.data());
}

void PublishedQps::mark(const Record& record) {
  const std::uint32_t index = index_of(record);
  if (is_changed_[index]) return;
  is_changed_[index] = true;
  changed_.push_back(index);
}

void PublishedQps::sent(std::uint32_t qpn, std::size_t bytes) {
  Record* const record = find(qpn);
  if (record == nullptr) return;
  add(record->counts.sent_packets, 1);
  add(record->counts.sent_bytes, bytes);
  mark(*record);
}

void PublishedQps::received(std::uint32_t qpn, const proto::Gid& source, std::size_t bytes, Instant now) {
  Record* const record = find(qpn);
  if (record == nullptr) return;
  add(record->counts.received_packets, 1);
  add(record->counts.received_bytes, bytes);
  mark(*record);
  // A stranger, whose packets the QP drops, is not the peer. A QP without a peer (UD) hears everybody.
  const proto::Gid& peer = record->fixed.attr.path.destination;
  if (!peer.is_zero() && source != peer) return;
  std::atomic_ref(record->counts.last_received_ns).store(now.time_since_epoch().count(), std::memory_order_relaxed);
}

void PublishedQps::touch(std::uint32_t qpn) {
  if (const Record* const record = find(qpn)) mark(*record);
}

void PublishedQps::on_event(const nic::TraceEvent& event) {
  using nic::TraceKind;
  Record* const record = find(event.qpn);
  if (record == nullptr) return;
  mark(*record);
  QpCounts& counts = record->counts;
  switch (event.kind) {
    case TraceKind::kRetransmitted:
      return add(counts.retransmitted, 1);
    case TraceKind::kAckTimeout:
      return add(counts.timeouts, 1);
    case TraceKind::kSequenceNakIn:
    case TraceKind::kImpliedNak:
    case TraceKind::kNakIn:
      return add(counts.naks_received, 1);
    case TraceKind::kRnrNakIn:
      return add(counts.rnr_received, 1);
    case TraceKind::kNak:
      return add(counts.naks_sent, 1);
    case TraceKind::kRnrNak:
      return add(counts.rnr_sent, 1);
    case TraceKind::kDuplicate:
      return add(counts.duplicates, 1);
    case TraceKind::kOutOfSequence:
      return add(counts.out_of_sequence, 1);
    case TraceKind::kDropNoReceive:
      return add(counts.dropped_no_receive, 1);
    default:
      return;
  }
}

void PublishedQps::publish(const nic::Nic& nic) {
  for (const std::uint32_t index : changed_) {
    is_changed_[index] = false;
    Record& record = all_->records[index];
    if (const nic::Qp* const qp = nic.find_qp(static_cast<std::uint32_t>(record.qpn))) show_inside(record, *qp);
  }
  changed_.clear();
}

record::Recording::Qp PublishedQps::peer_of(const Record& record) {
  const proto::Gid& peer = record.fixed.attr.path.destination;
  return {.peer = peer.is_zero() ? "" : proto::to_string(peer),
          .last_heard = Instant(Duration(record.counts.last_received_ns))};
}

std::map<std::uint32_t, record::Recording::Qp> PublishedQps::peers() const {
  std::map<std::uint32_t, record::Recording::Qp> peers = gone_;
  for (const Record& record : all_->records) {
    if (is_shown_[index_of(record)]) peers[static_cast<std::uint32_t>(record.qpn)] = peer_of(record);
  }
  return peers;
}

/// Nothing when it was not written by this build: it may look different.
std::optional<PublishedQps::Head> PublishedQps::head_in(int memory) {
  struct stat status {};
  if (::fstat(memory, &status) != 0 || status.st_size != sizeof(Memory)) return std::nullopt;
  Head head;
  if (::pread(memory, &head, sizeof head, 0) != static_cast<ssize_t>(sizeof head)) return std::nullopt;
  return head.magic == Head::kMagic ? std::optional(head) : std::nullopt;
}

std::vector<PublishedQps::Record> PublishedQps::records_in(int memory) {
  if (!head_in(memory)) return {};
  std::vector<Record> records(Memory::kRecords);
  const std::size_t size = records.size() * sizeof(Record);
  if (::pread(memory, records.data(), size, offsetof(Memory, records)) != static_cast<ssize_t>(size)) return {};
  std::erase_if(records, [](const Record& record) { return record.qpn == 0; });
  return records;
}

std::vector<view::QpView> published_qps(const std::string& name) {
  std::vector<view::QpView> qps;
  for_each_published(qps_memory(name), [&](int memory, std::uint32_t pid) {
    for (const auto& record : PublishedQps::records_in(memory)) {
      qps.push_back({.qpn = static_cast<std::uint32_t>(record.qpn),
                     .dest_qpn = record.fixed.attr.dest_qpn,
                     .rq_psn = record.fixed.attr.rq_psn.value(),
                     .sq_psn = record.fixed.attr.sq_psn.value(),
                     .type = static_cast<std::uint8_t>(record.fixed.type),
                     .state = static_cast<std::uint8_t>(record.moving.state),
                     .is_connected = record.fixed.type != nic::QpType::kUd,
                     .pid = pid});
    }
  });
  return qps;
}

std::vector<LiveNic> live_nics(std::uint32_t pid) {
  std::vector<LiveNic> nics;
  const auto is_table = [](const std::string& link) { return link.starts_with(kPrefix); };
  for_each_open_file(pid, is_table, [&](int memory, std::uint32_t owner) {
    const auto head = PublishedQps::head_in(memory);
    if (!head) return;
    LiveNic nic{.pid = owner,
                .index = head->index,
                .program = record::text_of(head->program),
                .address = record::text_of(head->address),
                .qps = {}};
    for (const auto& record : PublishedQps::records_in(memory)) {
      nic.qps.push_back({static_cast<std::uint32_t>(record.qpn), record.fixed, record.moving, record.counts});
    }
    nics.push_back(std::move(nic));
  });
  return nics;
}

}  // namespace uroce::ibv
