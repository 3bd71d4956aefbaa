// The QPs of a NIC, for other processes to list (published_memory.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/os/fd.h"
#include "verbs/nic/transport/qp.h"
#include "verbs/view/nic_view.h"

namespace uroce::ibv {

class PublishedQps {
 public:
  /// `name`: counters_name(). Null where there is no shared memory: then nothing is published.
  static std::unique_ptr<PublishedQps> make(const std::string& name);
  ~PublishedQps();
  PublishedQps(const PublishedQps&) = delete;
  PublishedQps& operator=(const PublishedQps&) = delete;

  /// As it is now. Of QPs whose numbers are alike in the last 12 bits, the latest is shown.
  void show(const nic::Qp& qp);
  void hide(const nic::Qp& qp);

 private:
  struct Record;
  friend std::vector<view::QpView> published_qps(const std::string& name);
  PublishedQps(engine::Fd memory, Record* records) : memory_(std::move(memory)), records_(records) {}

  engine::Fd memory_;
  Record* records_;
};

/// All QPs under `name` of processes that we may look into.
std::vector<view::QpView> published_qps(const std::string& name);

}  // namespace uroce::ibv
