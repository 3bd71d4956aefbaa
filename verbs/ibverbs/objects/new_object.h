// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <unordered_set>

#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv {

/// An object on its way to the user, and in its context's list from the start: that takes memory, which may be missing,
/// and what the NIC has made already would have to be undone. Until keep(), it goes again with this.
template <class Object>
class NewObject {
 public:
  NewObject(Context& context, std::unordered_set<Object*> Context::*kind) : context_(context), kind_(kind) {
    const std::scoped_lock lock(context.objects_mutex);
    (context.*kind).insert(object_.get());
  }
  ~NewObject() {
    if (object_ == nullptr) return;
    const std::scoped_lock lock(context_.objects_mutex);
    (context_.*kind_).erase(object_.get());
  }
  NewObject(const NewObject&) = delete;
  NewObject& operator=(const NewObject&) = delete;

  Object* get() const { return object_.get(); }
  Object* operator->() const { return object_.get(); }
  Object* keep() { return object_.release(); }

 private:
  Context& context_;
  std::unordered_set<Object*> Context::*const kind_;
  std::unique_ptr<Object> object_ = std::make_unique<Object>();
};

}  // namespace uroce::ibv
