// SPDX-License-Identifier: Apache-2.0
/* What the static libstdc++ of Debian 12 asks for, and an older libc does not have. Only for portable.cmake. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* glibc 2.32. libstdc++ counts references without atomics while this is not 0. Always 0: there may be threads. */
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

/* glibc 2.36, for std::random_device. */
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t number;
  if (getentropy(&number, sizeof number) != 0) abort();
  return number;
}
