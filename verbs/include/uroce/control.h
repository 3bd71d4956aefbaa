// SPDX-License-Identifier: Apache-2.0
/* Control of the emulated NICs of a running process: of this one, or of another one of the same user. C and C++, only
 * this header, nothing to link. The process must have been started with UROCE_CONTROL=on (uroce run --control on), and
 * have asked for the list of devices. Commands and what they answer: docs/control.md, `uroce ctl --help`.
 *
 *   uroce_lose(0, 1, "op:ack");             the next ACK that this process sends is lost
 *   uroce_faults(pid, "loss=1%,dup=1%");    from now on
 *   uroce_faults(pid, "none");
 *
 * Each function returns when its effect is there. It returns 0 or an errno value:
 *   ENOENT        there is no such process
 *   ECONNREFUSED  it takes no commands
 *   EACCES, EPERM it is another user's
 *   EADDRINUSE    another process listens under its name
 *   EINVAL        the command makes no sense, or can't be executed; the answer says why
 *   EMSGSIZE      the answer is longer than there is room for
 *   EAGAIN        no answer within UROCE_CONTROL_SECONDS: the process is stopped; when it goes on, it may execute the
 *                 command all the same
 * A pid of 0 stands for the calling process. */
#ifndef UROCE_CONTROL_H
#define UROCE_CONTROL_H
#pragma GCC system_header /* Programs that include this choose warnings for their own code. */

#include <asm/socket.h> /* SO_PEERCRED, in strict C as well. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The longest command, and the longest answer, in bytes. */
#define UROCE_CONTROL_COMMAND 4096
#define UROCE_CONTROL_ANSWER 65536
/* For an answer. */
#define UROCE_CONTROL_SECONDS 10

/* The number of process `pid` in its own PID namespace: the last one of NSpid in /proc/PID/status. */
static inline long uroce_control_own_pid(pid_t pid) {
  char line[512];
  long number = (long)pid;
  FILE* status;
  snprintf(line, sizeof line, "/proc/%ld/status", (long)pid);
  status = fopen(line, "re");
  if (status == NULL) return number;
  while (fgets(line, sizeof line, status) != NULL) {
    const char* last = strncmp(line, "NSpid:", 6) == 0 ? strrchr(line, '\t') : NULL;
    if (last != NULL) number = atol(last + 1);
  }
  fclose(status);
  return number;
}

/* The abstract Unix socket (SOCK_SEQPACKET) on which a process takes commands: "uroce-control/NAMESPACE/PID" behind a
 * zero byte. NAMESPACE is the inode of its PID namespace: containers that share a network have a PID 1 each. Sets
 * `address` and its length. */
static inline int uroce_control_address(pid_t pid, struct sockaddr_un* address, socklen_t* length) {
  char path[64];
  struct stat space;
  int written;
  snprintf(path, sizeof path, "/proc/%ld/ns/pid", pid == 0 ? (long)getpid() : (long)pid);
  if (stat(path, &space) != 0) return errno;
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  written = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "uroce-control/%llu/%ld",
                     (unsigned long long)space.st_ino, pid == 0 ? (long)getpid() : uroce_control_own_pid(pid));
  *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)written);
  return 0;
}

/* Connects to process `pid`; `*connection` is to be closed. */
static inline int uroce_control_connect(pid_t pid, int* connection) {
  struct sockaddr_un address;
  socklen_t length = 0;
  struct {
    pid_t pid;
    uid_t uid;
    gid_t gid;
  } peer; /* struct ucred, which needs _GNU_SOURCE. */
  socklen_t peer_size = sizeof peer;
  struct timeval patience;
  int error = uroce_control_address(pid, &address, &length);
  if (error != 0) return error;
  *connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (*connection < 0) return errno;
  patience.tv_sec = UROCE_CONTROL_SECONDS;
  patience.tv_usec = 0;
  setsockopt(*connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(*connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (connect(*connection, (const struct sockaddr*)&address, length) != 0) {
    error = errno;
  } else if (getsockopt(*connection, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0) {
    error = errno;
  } else if (peer.pid != (pid == 0 ? getpid() : pid)) {
    error = EADDRINUSE; /* Anybody can listen under any abstract name. */
  } else if (peer.uid != geteuid() && geteuid() != 0) {
    error = EACCES;
  }
  if (error != 0) close(*connection);
  return error;
}

/* Sends a command to process `pid`. `answer`, unless null, gets what it says, as a string without "ok" or "error" in
 * front; `size` is the room there. */
static inline int uroce_control(pid_t pid, const char* command, char* answer, size_t size) {
  static const char ok[] = "ok\n", failed[] = "error: ";
  int connection = -1, error;
  char* buffer;
  const char* text;
  ssize_t got;
  time_t begin;
  if (answer != NULL && size > 0) answer[0] = '\0';
  if (command[0] == '\0') return EINVAL; /* It could not be told from the end of a connection. */
  error = uroce_control_connect(pid, &connection);
  if (error != 0) return error;
  buffer = (char*)malloc(UROCE_CONTROL_ANSWER + 1);
  if (buffer == NULL) {
    close(connection);
    return ENOMEM;
  }
  begin = time(NULL);
  got = send(connection, command, strlen(command), MSG_NOSIGNAL);
  while (got >= 0) {
    got = recv(connection, buffer, UROCE_CONTROL_ANSWER, 0);
    if (got >= 0 || errno != EINTR) break;
    /* Each signal begins the time of SO_RCVTIMEO anew. */
    if (time(NULL) - begin >= UROCE_CONTROL_SECONDS) {
      errno = EAGAIN;
      break;
    }
    got = 0;
  }
  error = got > 0 ? 0 : got == 0 ? ECONNRESET : errno;
  close(connection);
  if (error == 0) {
    buffer[got] = '\0';
    text = buffer;
    if (strncmp(text, ok, sizeof ok - 1) == 0) {
      text += sizeof ok - 1;
    } else {
      error = EINVAL;
      if (strncmp(text, failed, sizeof failed - 1) == 0) text += sizeof failed - 1;
    }
    if (answer != NULL && size > 0) {
      const size_t length = strlen(text), taken = length < size ? length : size - 1;
      memcpy(answer, text, taken);
      answer[taken] = '\0';
      if (taken < length && error == 0) error = EMSGSIZE;
    }
  }
  free(buffer);
  return error;
}

/* From now on `faults` (docs/faults.md), in the place of those of UROCE_FAULTS; "none": none. Numbers of packets and
 * times count from now. Also for NICs that are opened later. */
static inline int uroce_faults(pid_t pid, const char* faults) {
  char command[UROCE_CONTROL_COMMAND];
  const int length = snprintf(command, sizeof command, "faults %s", faults);
  return length < (int)sizeof command ? uroce_control(pid, command, NULL, 0) : EINVAL;
}

/* The next `count` packets are lost that process `pid` sends and that meet `conditions`, e.g. "op:ack"; "": any.
 * "rx op:ack": that it receives. */
static inline int uroce_lose(pid_t pid, unsigned count, const char* conditions) {
  char command[UROCE_CONTROL_COMMAND];
  const int length = snprintf(command, sizeof command, "lose %u %s", count, conditions);
  return length < (int)sizeof command ? uroce_control(pid, command, NULL, 0) : EINVAL;
}

/* Nothing passes for that time, in either direction. */
static inline int uroce_blackout_ms(pid_t pid, unsigned milliseconds) {
  char command[64];
  snprintf(command, sizeof command, "blackout %ums", milliseconds);
  return uroce_control(pid, command, NULL, 0);
}

/* The QP goes to ERR: its work requests are flushed, and the program gets IBV_EVENT_QP_FATAL. */
static inline int uroce_break_qp(pid_t pid, uint32_t qpn) {
  char command[64];
  snprintf(command, sizeof command, "break %lu", (unsigned long)qpn);
  return uroce_control(pid, command, NULL, 0);
}

/* The counter of that name ("sent_pkts", "injected_drop" ...), summed over the NICs that the process has open. */
static inline int uroce_counter(pid_t pid, const char* name, uint64_t* value) {
  char command[128], answer[4096];
  char* line = answer;
  int error;
  const int length = snprintf(command, sizeof command, "counters %s", name);
  if (length >= (int)sizeof command) return EINVAL;
  error = uroce_control(pid, command, answer, sizeof answer);
  if (error != 0) return error;
  *value = 0;
  while ((line = strchr(line, ' ')) != NULL && (line = strchr(line + 1, ' ')) != NULL) { /* "uroce0 NAME VALUE" */
    *value += strtoull(line + 1, &line, 10);
  }
  return 0;
}

#ifdef __cplusplus
}
#endif
#endif
