// SPDX-License-Identifier: Apache-2.0
// A plugin that uses a device while it is loaded, and again while it is unloaded. The loader's lock is held then.
#include <infiniband/verbs.h>
#include <stdlib.h>

static void use_a_device(void) {
  struct ibv_device** const list = ibv_get_device_list(NULL);
  if (list == NULL || list[0] == NULL) exit(1);
  struct ibv_context* const context = ibv_open_device(list[0]);
  if (context == NULL || ibv_close_device(context) != 0) exit(1);
  ibv_free_device_list(list);
}

__attribute__((constructor)) static void is_loaded(void) { use_a_device(); }
__attribute__((destructor)) static void is_unloaded(void) { use_a_device(); }
