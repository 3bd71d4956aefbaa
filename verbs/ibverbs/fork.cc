#include "verbs/ibverbs/fork.h"

#include <pthread.h>

#include "verbs/ibverbs/device.h"

namespace uroce::ibv {
namespace {

// fork() copies what other threads are in the middle of changing. With everything locked, they are in the middle of
// nothing.
void before_fork() {
  device_table().mutex.lock();
  for (Device* device : device_table().devices) device->before_fork();
}

void in_parent() {
  for (Device* device : device_table().devices) device->after_fork_in_parent();
  device_table().mutex.unlock();
}

void in_child() {
  for (Device* device : device_table().devices) device->after_fork_in_child();
  device_table().mutex.unlock();
}

}  // namespace

void install_fork_handlers() {
  static const int kInstalled = pthread_atfork(before_fork, in_parent, in_child);
  static_cast<void>(kInstalled);
}

}  // namespace uroce::ibv
