/* nics N: succeeds if the machine has N RDMA devices, and a completion queue can be made on each. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  int count = 0;
  struct ibv_device** devices = ibv_get_device_list(&count);
  if (devices == NULL || argc != 2 || count != atoi(argv[1])) {
    fprintf(stderr, "%d devices\n", count);
    return 1;
  }
  for (int i = 0; i < count; ++i) {
    struct ibv_context* context = ibv_open_device(devices[i]);
    struct ibv_cq* cq = context == NULL ? NULL : ibv_create_cq(context, 16, NULL, NULL, 0);
    if (cq == NULL) {
      fprintf(stderr, "%s: no completion queue: %s\n", ibv_get_device_name(devices[i]), strerror(errno));
      return 1;
    }
    ibv_destroy_cq(cq);
    ibv_close_device(context);
  }
  ibv_free_device_list(devices);
  return 0;
}
