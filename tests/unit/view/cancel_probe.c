// SPDX-License-Identifier: Apache-2.0
// Threads that are cancelled before they ask for something of the view: each ends, and the process goes on.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char folder[] = "/sys/class/infiniband/uroce0";
static const char file[] = "/sys/class/infiniband/uroce0/ports/1/state";
static int channel;
static int was_executed;

static void ask_status(void) {
  struct stat status;
  stat(file, &status);
  lstat(folder, &status);
  access(file, R_OK);
}
static void read_file(void) {
  char text[64];
  const int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (read(fd, text, sizeof text) > 0) close(fd);
}
static void read_stream(void) {
  char text[64];
  FILE* const stream = fopen(file, "re");
  if (stream == NULL || fgets(text, sizeof text, stream) == NULL) return;
  fclose(stream);
}
static void read_folder(void) {
  DIR* const stream = opendir(folder);
  if (stream == NULL) return;
  while (readdir(stream) != NULL) continue;
  closedir(stream);
}
static void go_there_and_back(void) {
  if (chdir(folder) == 0 && chdir("/") != 0) abort();
}
// write() is a cancellation point, also where it is a command.
static void command(void) {
  struct {
    struct rdma_ucm_cmd_hdr header;
    struct rdma_ucm_create_id body;
  } create = {{RDMA_USER_CM_CMD_CREATE_ID, sizeof create.body, sizeof(struct rdma_ucm_create_id_resp)}, {0}};
  struct rdma_ucm_create_id_resp id;
  create.body.response = (__u64)(unsigned long)&id;
  create.body.ps = RDMA_PS_TCP;
  if (write(channel, &create, sizeof create) != 0) was_executed = 1;
}

static void* run(void* argument) {
  void (*const* const work)(void) = argument;
  pthread_cancel(pthread_self());
  (*work)();
  pthread_testcancel();
  return NULL;
}

int main(void) {
  static void (*const works[])(void) = {ask_status, read_file, read_stream, read_folder, go_there_and_back, command};
  struct stat status;
  channel = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  if (channel < 0 || stat(file, &status) != 0) {
    puts("the view is not there; run this with uroce run");
    return 1;
  }
  for (size_t i = 0; i < sizeof works / sizeof *works; ++i) {
    pthread_t thread;
    void* result = NULL;
    if (pthread_create(&thread, NULL, run, (void*)&works[i]) != 0 || pthread_join(thread, &result) != 0) return 1;
    if (result != PTHREAD_CANCELED) {
      printf("thread %zu was not cancelled\n", i);
      return 1;
    }
  }
  if (was_executed) puts("a command was executed by a thread that had been cancelled");
  return was_executed;
}
