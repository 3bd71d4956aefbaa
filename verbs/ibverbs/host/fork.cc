// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/fork.h"

#include <pthread.h>

#include "engine/run/turn_lock.h"
#include "verbs/ibverbs/host/device.h"

namespace uroce::ibv {
namespace {

void nothing() {}
ForkHooks hooks{nothing, nothing, nothing, nothing};

unsigned int fork_count = 0;  // Changes in a child only, before it runs any thread but one.

// A signal handler may fork inside a call on a NIC, whose locks this thread has then. The child may go on with that
// call, and is refused all others.
thread_local bool forks_inside_call = false;

// fork() copies what other threads are in the middle of changing. With everything locked, they are in the middle of
// nothing.
void before_fork() {
  forks_inside_call = engine::TurnMutex::is_inside();
  if (forks_inside_call) return;
  hooks.before_nics();
  device_table().mutex.lock();
  for (Device* device : device_table().devices) device->before_fork();
  hooks.after_nics();
}

void in_parent() {
  if (forks_inside_call) return;
  hooks.in_parent();
  for (Device* device : device_table().devices) device->after_fork_in_parent();
  device_table().mutex.unlock();
}

void in_child() {
  ++fork_count;
  if (forks_inside_call) {
    for (const Device* device : device_table().devices) device->abandon_inside_call();
    return;
  }
  for (Device* device : device_table().devices) device->after_fork_in_child();
  device_table().mutex.unlock();
  hooks.in_child();
}

}  // namespace

unsigned int forks() { return fork_count; }

void set_fork_hooks(const ForkHooks& more) {
  hooks = more;
  install_fork_handlers();
}

void install_fork_handlers() {
  static const int kInstalled = pthread_atfork(before_fork, in_parent, in_child);
  static_cast<void>(kInstalled);
}

}  // namespace uroce::ibv
