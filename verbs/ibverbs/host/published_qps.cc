#include "verbs/ibverbs/host/published_qps.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "verbs/ibverbs/host/published_memory.h"

namespace uroce::ibv {

/// Words that are written one by one: a reader may see some of a change.
struct PublishedQps::Record {
  std::uint32_t qpn;  ///< 0: none.
  std::uint32_t dest_qpn, rq_psn, sq_psn, type, state;
  std::uint32_t reserved[2];
};

namespace {

constexpr std::uint32_t kRecords = 4096;  // A power of two; pages that nobody touches cost nothing.

void store(std::uint32_t& word, std::uint32_t value) { std::atomic_ref(word).store(value, std::memory_order_relaxed); }

std::string memory_name(const std::string& name) { return published_name("qps", name); }

}  // namespace

std::unique_ptr<PublishedQps> PublishedQps::make(const std::string& name) {
  void* memory = nullptr;
  engine::Fd fd = publish_memory(memory_name(name), kRecords * sizeof(Record), &memory);
  if (!fd) return nullptr;
  return std::unique_ptr<PublishedQps>(new PublishedQps(std::move(fd), static_cast<Record*>(memory)));
}

PublishedQps::~PublishedQps() { ::munmap(records_, kRecords * sizeof(Record)); }

void PublishedQps::show(const nic::Qp& qp) {
  Record& record = records_[qp.qpn() % kRecords];
  store(record.dest_qpn, qp.attr().dest_qpn);
  store(record.rq_psn, qp.attr().rq_psn.value());
  store(record.sq_psn, qp.attr().sq_psn.value());
  store(record.type, static_cast<std::uint32_t>(qp.type()));
  store(record.state, static_cast<std::uint32_t>(qp.state()));
  store(record.qpn, qp.qpn());
}

void PublishedQps::hide(const nic::Qp& qp) {
  Record& record = records_[qp.qpn() % kRecords];
  if (record.qpn == qp.qpn()) store(record.qpn, 0);
}

std::vector<view::QpView> published_qps(const std::string& name) {
  using Theirs = PublishedQps::Record;
  std::vector<view::QpView> qps;
  std::vector<Theirs> records(kRecords);
  for_each_published(memory_name(name), [&](int memory, std::uint32_t pid) {
    const std::size_t size = records.size() * sizeof(Theirs);
    if (::pread(memory, records.data(), size, 0) != static_cast<ssize_t>(size)) return;
    for (const Theirs& record : records) {
      if (record.qpn == 0) continue;
      qps.push_back({.qpn = record.qpn,
                     .dest_qpn = record.dest_qpn,
                     .rq_psn = record.rq_psn,
                     .sq_psn = record.sq_psn,
                     .type = static_cast<std::uint8_t>(record.type),
                     .state = static_cast<std::uint8_t>(record.state),
                     .is_connected = record.type != static_cast<std::uint32_t>(nic::QpType::kUd),
                     .pid = pid});
    }
  });
  return qps;
}

}  // namespace uroce::ibv
