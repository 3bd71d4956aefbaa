// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/fork.h"

#include <pthread.h>

#include "engine/os/process_mutex.h"
#include "engine/run/turn_lock.h"
#include "verbs/ibverbs/host/device.h"

namespace uroce::ibv {
namespace {

void nothing() {}
constinit ForkHooks hooks{[] { return false; }, nothing, nothing, nothing, nothing};

/// Much longer than anybody holds these.
constexpr Duration kLong = std::chrono::seconds(1);
MutexHeldAcrossFork<engine::ProcessMutex> devices_held, process_held;
/// One fork at a time: handlers of several run at once since glibc 2.36.
constinit std::mutex forking;

unsigned int fork_count = 0;  // Changes in a child only, before it runs any thread but one.

/// This process comes of a fork inside a call. Who has our locks may not exist here, and it never waits for them.
bool comes_from_inside = false;

// A signal handler may fork inside a call, whose locks this thread has then, or inside fork(). The child may go on with
// that call, and is refused all others.
thread_local bool is_inside = false;
thread_local int depth = 0;  ///< Of calls of fork().
struct AtEnd {
  AtEnd() = default;
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;
  ~AtEnd() { --depth; }
};

// fork() copies what other threads are in the middle of changing. With everything locked, they are in the middle of
// nothing.
void before_fork() {
  if (++depth > 1) return;
  is_inside = forks_inside_call();  // Now: in a moment this thread has all of the locks.
  if (is_inside) return;
  forking.lock();
  hooks.before_nics();
  if (devices_held.take(device_table().mutex, kLong)) {
    for (Device* device : device_table().devices) device->before_fork();
  }
  hooks.after_nics();
  process_held.take(engine::process_mutex, kLong);
}

void in_parent() {
  const AtEnd leaves;
  if (depth > 1 || is_inside) return;
  process_held.give_back();
  hooks.in_parent();
  if (devices_held) {
    for (Device* device : device_table().devices) device->after_fork_in_parent();
  }
  devices_held.give_back();
  forking.unlock();
}

void in_child() {
  ++fork_count;
  const AtEnd leaves;
  if (depth > 1 || is_inside) {
    comes_from_inside = true;
    for (Device* device : device_table().devices) device->abandon_inside_call();
    return;
  }
  process_held.give_back();
  for (Device* device : device_table().devices) {
    devices_held ? device->after_fork_in_child() : device->abandon_inside_call();
  }
  devices_held.give_back();
  hooks.in_child();
  forking.unlock();
}

// At load: a program that forks may have other threads already, which look into the view.
[[maybe_unused]] const int kInstalled = pthread_atfork(before_fork, in_parent, in_child);

}  // namespace

unsigned int forks() { return fork_count; }

bool forks_inside_call() {
  return comes_from_inside || engine::TurnMutex::is_inside() || DeviceMutex::is_inside() ||
         engine::ProcessMutex::is_inside() || hooks.is_inside();
}

void set_fork_hooks(const ForkHooks& more) { hooks = more; }

}  // namespace uroce::ibv
