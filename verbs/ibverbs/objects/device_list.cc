// SPDX-License-Identifier: Apache-2.0
// The list of devices, as verbs give it.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/catalogue/settings.h"
#include "verbs/ibverbs/control/server.h"
#include "verbs/ibverbs/host/device.h"
#include "verbs/ibverbs/host/environment.h"

namespace uroce::ibv::impl {

struct ibv_device** ibv_get_device_list(int* num_devices) {
  if (num_devices != nullptr) *num_devices = 0;
  if (const std::string wrong = start_control(); !wrong.empty()) {
    refuse_setting(EINVAL, wrong);
    return nullptr;
  }
  const auto refusals = refusals_wanted(setting(Setting::kRefusals));
  if (!refusals.ok()) {
    refuse_setting(EINVAL, refusals.error());
    return nullptr;
  }
  explain_refusals(*refusals);
  const auto all = devices();
  if (!all.ok()) {
    refuse_setting(EINVAL, all.error());
    return nullptr;
  }
  const std::size_t count = (*all)->size();
  auto** list = static_cast<struct ibv_device**>(std::calloc(count + 1, sizeof(struct ibv_device*)));
  if (list == nullptr) throw std::bad_alloc();
  std::copy((*all)->begin(), (*all)->end(), list);
  if (num_devices != nullptr) *num_devices = static_cast<int>(count);
  return list;
}

void ibv_free_device_list(struct ibv_device** list) { std::free(list); }

const char* ibv_get_device_name(struct ibv_device* device) { return device->name; }

__be64 ibv_get_device_guid(struct ibv_device* device) {
  __be64 guid = 0;
  const auto bytes = static_cast<Device*>(device)->guid();
  std::memcpy(&guid, bytes.data(), sizeof guid);
  return guid;
}

int ibv_get_device_index(struct ibv_device* device) { return static_cast<int>(static_cast<Device*>(device)->index); }

}  // namespace uroce::ibv::impl
