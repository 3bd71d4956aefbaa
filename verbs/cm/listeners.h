// SPDX-License-Identifier: Apache-2.0
// The listeners: for which service, at which address. Found by service ID, without a scan over listeners.
#pragma once

#include <map>
#include <set>

#include "verbs/cm/spare_memory.h"
#include "verbs/cm/values.h"

namespace uroce::cm {

struct Listener {
  ListenerId id = 0;
  Listen what{};
  std::pmr::set<Id> backlog;  ///< Requests that nobody has fetched.

  bool is_full() const { return backlog.size() >= what.backlog; }
  bool takes(const Gid& address) const {
    if (what.address) return *what.address == address;
    return address.is_v4() ? what.takes_v4 : what.takes_v6;
  }
};

class Listeners {
 public:
  explicit Listeners(SpareMemory& memory) : memory_(memory) {}
  /// Null: the same service and address, or overlapping families of a wildcard, are taken.
  Listener* add(const Listen& what) {
    for (auto other = first(what.service_id); is_of(other, what.service_id); ++other) {
      if (clash(all_.at(other->second).what, what)) return nullptr;
    }
    const ListenerId id = ++last_;
    by_service_.insert({what.service_id, id});
    return &all_.emplace(id, Listener{id, what, std::pmr::set<Id>(&memory_)}).first->second;
  }
  Listener* find(ListenerId id) {
    const auto it = all_.find(id);
    return it == all_.end() ? nullptr : &it->second;
  }
  void remove(ListenerId id) {
    by_service_.erase({all_.at(id).what.service_id, id});
    all_.erase(id);
  }
  bool has_service(std::uint64_t service_id) const { return is_of(first(service_id), service_id); }
  /// An exact address before a wildcard; null: nobody.
  Listener* match(std::uint64_t service_id, const Gid& address) {
    Listener* found = nullptr;
    for (auto one = first(service_id); is_of(one, service_id); ++one) {
      Listener& listener = all_.at(one->second);
      if (listener.takes(address) && (found == nullptr || listener.what.address)) found = &listener;
    }
    return found;
  }

 private:
  using ByService = std::pmr::set<std::pair<std::uint64_t, ListenerId>>;
  ByService::const_iterator first(std::uint64_t service_id) const { return by_service_.lower_bound({service_id, 0}); }
  bool is_of(ByService::const_iterator one, std::uint64_t service_id) const {
    return one != by_service_.end() && one->first == service_id;
  }
  static bool clash(const Listen& a, const Listen& b) {
    if (a.address || b.address) return a.address == b.address;
    return (a.takes_v4 && b.takes_v4) || (a.takes_v6 && b.takes_v6);
  }
  SpareMemory& memory_;
  std::pmr::map<ListenerId, Listener> all_{&memory_};
  ByService by_service_{&memory_};
  ListenerId last_ = 0;
};

}  // namespace uroce::cm
