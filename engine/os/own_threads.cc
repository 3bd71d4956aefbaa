// SPDX-License-Identifier: Apache-2.0
#include "engine/os/own_threads.h"

#include <pthread.h>
#include <unistd.h>

#include <new>

namespace uroce::engine {
namespace {

constexpr pid_t kNobody = 0;

/// No lock: a fork may happen with any lock of ours held.
struct Place {
  std::atomic<pid_t> thread = kNobody;
  Place* next = nullptr;
};
/// They are used again, and never freed.
constinit std::atomic<Place*> places = nullptr;

std::atomic<pid_t>* take_place(pid_t thread) {
  for (Place* place = places; place != nullptr; place = place->next) {
    pid_t nobody = kNobody;
    if (place->thread.compare_exchange_strong(nobody, thread)) return &place->thread;
  }
  auto* const made = new (std::nothrow) Place;
  if (made == nullptr) return nullptr;
  made->thread = thread;
  made->next = places;
  while (!places.compare_exchange_weak(made->next, made)) {
  }
  return &made->thread;
}

/// Our threads stay with the parent, and their numbers may be given to the child's.
void forget_in_child() {
  for (Place* place = places; place != nullptr; place = place->next) place->thread = kNobody;
}
[[maybe_unused]] const int kInstalled = pthread_atfork(nullptr, nullptr, forget_in_child);

}  // namespace

OwnThread::OwnThread() : place_(take_place(::gettid())) {}

OwnThread::~OwnThread() {
  if (place_ != nullptr) *place_ = kNobody;
}

bool is_own_thread(pid_t thread) {
  for (const Place* place = places; place != nullptr; place = place->next) {
    if (place->thread == thread) return true;
  }
  return false;
}

}  // namespace uroce::engine
