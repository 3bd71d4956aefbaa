// SPDX-License-Identifier: Apache-2.0
// Who closes a channel of RDMA CM: children that have a copy of it, or only the memory of their parent.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_channel(void) {
  const int channel = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  if (channel >= 0) return channel;
  puts("the view is not there; run this with uroce run");
  exit(1);
}

static unsigned int create(int channel) {
  struct {
    struct rdma_ucm_cmd_hdr header;
    struct rdma_ucm_create_id body;
  } command = {{RDMA_USER_CM_CMD_CREATE_ID, sizeof command.body, sizeof(struct rdma_ucm_create_id_resp)}, {0}};
  struct rdma_ucm_create_id_resp answer = {0};
  command.body.response = (__u64)(unsigned long)&answer;
  command.body.ps = RDMA_PS_TCP;
  if (write(channel, &command, sizeof command) < 0) exit(1);
  return answer.id;
}

/// 0, or an errno value.
static int bind_any(int channel, unsigned int id, unsigned short port) {
  struct {
    struct rdma_ucm_cmd_hdr header;
    struct rdma_ucm_bind_ip body;
  } command = {{RDMA_USER_CM_CMD_BIND_IP, sizeof command.body, 0}, {0}};
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  memcpy(&command.body.addr, &address, sizeof address);
  command.body.id = id;
  return write(channel, &command, sizeof command) < 0 ? errno : 0;
}

/// The same. Its event goes through the pipe.
static int resolve(int channel, unsigned int id) {
  struct {
    struct rdma_ucm_cmd_hdr header;
    struct rdma_ucm_resolve_ip body;
  } command = {{RDMA_USER_CM_CMD_RESOLVE_IP, sizeof command.body, 0}, {0}};
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(7300)};
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  memcpy(&command.body.dst_addr, &address, sizeof address);
  command.body.id = id;
  command.body.timeout_ms = 1000;
  return write(channel, &command, sizeof command) < 0 ? errno : 0;
}

static int expect(const char* what, int got, int wanted) {
  if (got == wanted) return 0;
  printf("%s: %s, and it should be %s\n", what, strerror(got), strerror(wanted));
  return 1;
}

static void close_range_from_3(void) { close_range(3, ~0U, 0); }
static void closefrom_3(void) { closefrom(3); }
static void close_each_from_the_end(void) {
  for (int fd = 255; fd >= 3; --fd) close(fd);
}

int main(void) {
  static void (*const ways[])(void) = {close_range_from_3, closefrom_3, close_each_from_the_end};
  int wrong = 0;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i) {
    const int channel = open_channel();
    const unsigned int id = create(channel);
    const pid_t child = vfork();
    if (child == 0) {
      ways[i]();
      execlp("true", "true", (char*)NULL);
      _exit(1);
    }
    waitpid(child, NULL, 0);
    wrong += expect("after a child of vfork() closed its descriptors, bind", bind_any(channel, id, 7300), 0);
    close(channel);
  }

  // The parent closes its copy while a child has one; its port is free when the child has ended.
  const int channel = open_channel();
  wrong += expect("bind", bind_any(channel, create(channel), 7300), 0);
  int ends[2];
  if (pipe(ends) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    close(ends[1]);
    _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(channel);
  int next = open_channel();
  wrong += expect("while a child has the channel, bind", bind_any(next, create(next), 7300), EADDRNOTAVAIL);
  close(next);
  close(ends[1]);
  waitpid(child, NULL, 0);
  next = open_channel();
  wrong += expect("after the child, bind", bind_any(next, create(next), 7300), 0);

  // The other end of a channel's pipe gets the number that a channel had before.
  close(next);
  const int place = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(open_channel());
  close(place);
  next = open_channel();
  wrong += expect("where another channel was, resolve", resolve(next, create(next)), 0);

  // The process closes all of its own.
  close_range(3, ~0U, 0);
  next = open_channel();
  wrong += expect("after close_range(), bind", bind_any(next, create(next), 7300), 0);
  return wrong;
}
