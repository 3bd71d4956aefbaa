// SPDX-License-Identifier: Apache-2.0
// Forks, with devices open and connections made, and has its children end as programs do: by exit(), by the end of
// main(), behind a child of their own, with all closed. Built with an address sanitizer, whose LeakSanitizer then looks
// for leaks in each of them.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kDevices = 2, kRounds = 3, kPort = 7171, kBytes = 4096 };

#define REQUIRE(condition)                                            \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                       \
    }                                                                 \
  } while (0)

struct node {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_comp_channel* channel;
  struct ibv_cq* cq;
  struct ibv_mr* mr;
  struct ibv_qp* qp;
  char memory[kBytes];
};
static struct node nodes[kDevices];
static struct rdma_event_channel* channel;
static struct rdma_cm_id *listener, *client, *server;

static void open_node(struct node* n, struct ibv_device* device) {
  REQUIRE((n->context = ibv_open_device(device)) != NULL);
  REQUIRE((n->pd = ibv_alloc_pd(n->context)) != NULL);
  REQUIRE((n->channel = ibv_create_comp_channel(n->context)) != NULL);
  REQUIRE((n->cq = ibv_create_cq(n->context, 16, NULL, n->channel, 0)) != NULL);
  REQUIRE((n->mr = ibv_reg_mr(n->pd, n->memory, kBytes, IBV_ACCESS_LOCAL_WRITE)) != NULL);
  struct ibv_qp_init_attr init = {.send_cq = n->cq, .recv_cq = n->cq, .cap = {16, 16, 1, 1, 0}, .qp_type = IBV_QPT_RC};
  REQUIRE((n->qp = ibv_create_qp(n->pd, &init)) != NULL);
}

static void close_node(struct node* n) {
  REQUIRE(ibv_destroy_qp(n->qp) == 0 && ibv_dereg_mr(n->mr) == 0 && ibv_destroy_cq(n->cq) == 0);
  REQUIRE(ibv_destroy_comp_channel(n->channel) == 0 && ibv_dealloc_pd(n->pd) == 0);
  REQUIRE(ibv_close_device(n->context) == 0);
}

static void for_each_node(void (*use)(struct node*, struct ibv_device*)) {
  int count = 0;
  struct ibv_device** const list = ibv_get_device_list(&count);
  REQUIRE(list != NULL && count == kDevices);
  for (int i = 0; i < kDevices; ++i) use(&nodes[i], list[i]);
  ibv_free_device_list(list);
}

/// The id of the next event, which must be one of `type`.
static struct rdma_cm_id* next(enum rdma_cm_event_type type) {
  struct rdma_cm_event* event = NULL;
  REQUIRE(rdma_get_cm_event(channel, &event) == 0);
  struct rdma_cm_id* const id = event->id;
  if (event->event != type) fprintf(stderr, "%s\n", rdma_event_str(event->event));
  REQUIRE(event->event == type && rdma_ack_cm_event(event) == 0);
  return id;
}

static void make_qp(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr init = {.cap = {16, 16, 1, 1, 0}, .qp_type = IBV_QPT_RC};
  REQUIRE(rdma_create_qp(id, NULL, &init) == 0);
}

/// With itself: from one device to the other, or on one.
static void connect_by_cm(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(kPort)};
  REQUIRE(inet_pton(AF_INET, "127.0.0.1", &address.sin_addr) == 1);
  REQUIRE(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
  REQUIRE(rdma_bind_addr(listener, (struct sockaddr*)&address) == 0 && rdma_listen(listener, 1) == 0);
  REQUIRE(rdma_create_id(channel, &client, NULL, RDMA_PS_TCP) == 0);
  REQUIRE(rdma_resolve_addr(client, NULL, (struct sockaddr*)&address, 1000) == 0);
  next(RDMA_CM_EVENT_ADDR_RESOLVED);
  REQUIRE(rdma_resolve_route(client, 1000) == 0);
  next(RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_qp(client);
  struct rdma_conn_param parameters = {.retry_count = 7, .rnr_retry_count = 7};
  REQUIRE(rdma_connect(client, &parameters) == 0);
  server = next(RDMA_CM_EVENT_CONNECT_REQUEST);
  make_qp(server);
  REQUIRE(rdma_accept(server, &parameters) == 0);
  next(RDMA_CM_EVENT_ESTABLISHED);
  next(RDMA_CM_EVENT_ESTABLISHED);
}

static void end_connection(void) {
  for (struct rdma_cm_id** id = (struct rdma_cm_id*[]){client, server, listener, NULL}; *id != NULL; ++id) {
    if (*id != listener) rdma_destroy_qp(*id);
    REQUIRE(rdma_destroy_id(*id) == 0);
  }
  rdma_destroy_event_channel(channel);
}

static void reap(pid_t child, const char* how) {
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (status == 0) return;
  fprintf(stderr, "a child that %s has ended with status %#x\n", how, (unsigned)status);
  exit(1);
}

static int are_others_asleep(void) {
  DIR* const tasks = opendir("/proc/self/task");
  REQUIRE(tasks != NULL);
  int awake = 0;
  for (const struct dirent* task; (task = readdir(tasks)) != NULL;) {
    char path[300], state = 'S';
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
    if (task->d_name[0] == '.' || atoi(task->d_name) == gettid()) continue;
    FILE* const file = fopen(path, "r");
    if (file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state != 'S') ++awake;
    if (file != NULL) fclose(file);
  }
  closedir(tasks);
  return awake == 0;
}

/// Not while another thread may be in the allocator: the sanitizer of GCC 12 and of clang 14 leaves children its locks.
static pid_t fork_quietly(void) {
  fflush(NULL);
  while (!are_others_asleep()) usleep(1000);
  return fork();
}

static void fork_twice(void) {
  const pid_t forks = fork_quietly();
  if (forks == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) exit(0);
    reap(grandchild, "is a child's child");
    exit(0);
  }
  reap(forks, "forks");
}

/// False in a child that has to return from main().
static int fork_children(void) {
  const pid_t exits = fork_quietly();
  if (exits == 0) exit(0);
  reap(exits, "exits");
  fork_twice();
  const pid_t closes = fork_quietly();
  if (closes == 0) {
    for (int i = 0; i < kDevices; ++i) close_node(&nodes[i]);
    exit(0);
  }
  reap(closes, "closes all devices");
  const pid_t returns = fork_quietly();
  if (returns == 0) return 0;
  reap(returns, "returns from main()");
  return 1;
}

static void close_and_open(struct node* n, struct ibv_device* device) {
  close_node(n);
  open_node(n, device);
}

static void close_only(struct node* n, struct ibv_device* device) {
  (void)device;
  close_node(n);
}

int main(void) {
  REQUIRE((channel = rdma_create_event_channel()) != NULL);
  fork_twice();  // There is no NIC yet.
  for_each_node(open_node);
  connect_by_cm();
  for (int i = 0; i < kRounds; ++i) {
    if (!fork_children()) return 0;
    for_each_node(close_and_open);
  }
  end_connection();
  if (!fork_children()) return 0;
  for_each_node(close_only);
  if (fork_quietly() == 0) return 0;  // What closed devices have left for the next ones.
  int status = -1;
  REQUIRE(wait(&status) > 0 && status == 0);
  puts("no child has lost anything");
  return 0;
}
