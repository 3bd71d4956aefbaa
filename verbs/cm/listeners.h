// SPDX-License-Identifier: Apache-2.0
// The listeners: for which service, at which address. Found by service ID, without a scan over listeners.
#pragma once

#include <set>
#include <unordered_map>
#include <vector>

#include "verbs/cm/values.h"

namespace uroce::cm {

struct Listener {
  ListenerId id = 0;
  Listen what{};
  std::set<Id> backlog{};  ///< Requests that nobody has fetched.

  bool is_full() const { return backlog.size() >= what.backlog; }
  bool takes(const Gid& address) const {
    if (what.address) return *what.address == address;
    return address.is_v4() ? what.takes_v4 : what.takes_v6;
  }
};

class Listeners {
 public:
  /// Null: the same service and address, or overlapping families of a wildcard, are taken.
  Listener* add(const Listen& what) {
    if (const auto service = by_service_.find(what.service_id); service != by_service_.end()) {
      for (const ListenerId other : service->second) {
        if (clash(all_.at(other).what, what)) return nullptr;
      }
    }
    // Each step may find no memory: what there is stays right.
    const ListenerId id = ++last_;
    const auto added = all_.try_emplace(id, Listener{id, what}).first;
    try {
      std::vector<ListenerId>& same_service = by_service_[what.service_id];
      same_service.push_back(id);
    } catch (...) {
      remove(id);
      throw;
    }
    return &added->second;
  }
  Listener* find(ListenerId id) {
    const auto it = all_.find(id);
    return it == all_.end() ? nullptr : &it->second;
  }
  void remove(ListenerId id) {
    if (const auto service = by_service_.find(all_.at(id).what.service_id); service != by_service_.end()) {
      std::erase(service->second, id);
      if (service->second.empty()) by_service_.erase(service);
    }
    all_.erase(id);
  }
  bool has_service(std::uint64_t service_id) const { return by_service_.contains(service_id); }
  /// An exact address before a wildcard; null: nobody.
  Listener* match(std::uint64_t service_id, const Gid& address) {
    const auto service = by_service_.find(service_id);
    if (service == by_service_.end()) return nullptr;
    Listener* found = nullptr;
    for (const ListenerId id : service->second) {
      Listener& listener = all_.at(id);
      if (listener.takes(address) && (found == nullptr || listener.what.address)) found = &listener;
    }
    return found;
  }

 private:
  static bool clash(const Listen& a, const Listen& b) {
    if (a.address || b.address) return a.address == b.address;
    return (a.takes_v4 && b.takes_v4) || (a.takes_v6 && b.takes_v6);
  }
  std::unordered_map<ListenerId, Listener> all_;
  std::unordered_map<std::uint64_t, std::vector<ListenerId>> by_service_;
  ListenerId last_ = 0;
};

}  // namespace uroce::cm
