#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# syscalls.sh SOURCE_ROOT: fails when product code names what glibc 2.31 does not have, with which portable packages are
# built (tools/package.sh): system calls of Linux 5.6 and later, which the kernel's headers there know, and functions.
set -eu
cd "$1"
[ -d proto ] || { echo "no sources under $1: wrong folder?" >&2; exit 2; }
found=$(grep -rnE '\bSYS_(openat2|pidfd_getfd|faccessat2|close_range|process_(madvise|mrelease)|epoll_pwait2|mount_setattr|quotactl_fd|landlock_|memfd_secret|futex_|set_mempolicy_home_node|cachestat|fchmodat2|statmount|listmount|[gs]etxattrat|mseal)' \
  --include='*.cc' --include='*.c' --include='*.h' proto verbs engine tools || true)
newer=$(grep -rnE '::(strerrorname_np|strerrordesc_np|sig(abbrev|descr)_np|arc4random(_buf|_uniform)?|closefrom|close_range|epoll_pwait2|pidfd_(open|getfd|send_signal|spawn)|process_(madvise|mrelease)|strl(cpy|cat)|posix_spawn_file_actions_addclosefrom_np|pthread_cond_clockwait|pthread_attr_setsigmask_np|execveat|mount_setattr|_Fork) *\(' \
  --include='*.cc' --include='*.c' --include='*.h' proto verbs engine tools || true)
[ -z "$newer" ] || { printf '%s\nglibc 2.31 does not have that function\n' "$newer"; exit 1; }
[ -z "$found" ] || { printf '%s\nwrite __NR_ instead of SYS_: older libraries do not have the latter\n' "$found"; exit 1; }
