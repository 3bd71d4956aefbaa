#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# purity.sh ARCHIVE...: fails when a library that must be pure refers to a clock, a socket, a thread, a random source, a
# file or a print function. check.cc is exempt: it reports our own broken invariants and aborts.
set -eu
[ $# -gt 0 ] || { echo "usage: purity.sh ARCHIVE..." >&2; exit 2; }

# Whole names of C functions, beginnings of C++ ones: our own post_recv() is no recv().
c='clock_[a-z]+|gettimeofday|time|nanosleep|usleep|sleep|getrandom|getentropy|s?rand|random'
c="$c|socket|bind|connect|accept4?|(send|recv)(to|from|m?msg)?|poll|ppoll|select|epoll_[a-z0-9_]+|eventfd|timerfd_[a-z]+"
c="$c|io_uring_[a-z_]+|pthread_[a-z_]+|thrd_[a-z]+|syscall|getenv|secure_getenv"
c="$c|fopen(64)?|open(at)?(64)?|read|write|v?[fsda]?[sn]?n?printf|(__)?[a-z]*printf_chk|puts|fputs|putchar|fwrite"
cxx='std::(chrono::_V2::|thread|jthread|random_device|this_thread|condition_variable|basic_[a-z]*stream|cout|cerr|clog)'
forbidden="^[^ ]+ (($c)(@.*)?\$|$cxx)"

status=0
for archive in "$@"; do
  # A missing or unreadable archive must not look like a pure one.
  symbols=$(nm -AuC "$archive")
  [ -n "$symbols" ] || { echo "$archive: no symbols" >&2; exit 2; }
  found=$(printf '%s\n' "$symbols" | grep -v ':check\.cc\.o:' | sed -E 's/^.*:([^:]+\.o): +[Uwv] /\1 /' | grep -E "$forbidden" || true)
  if [ -n "$found" ]; then
    echo "$(basename "$archive") is not pure:"
    printf '%s\n' "$found"
    status=1
  fi
done
exit $status
