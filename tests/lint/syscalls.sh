#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# syscalls.sh SOURCE_ROOT: fails when product code names system calls as glibc 2.31 does not, with which portable packages
# are built (tools/package.sh): those of Linux 5.6 and later. The kernel's headers there know them.
set -eu
cd "$1"
[ -d proto ] || { echo "no sources under $1: wrong folder?" >&2; exit 2; }
found=$(grep -rnE '\bSYS_(openat2|pidfd_getfd|faccessat2|close_range|process_(madvise|mrelease)|epoll_pwait2|mount_setattr|quotactl_fd|landlock_|memfd_secret|futex_|set_mempolicy_home_node|cachestat|fchmodat2|statmount|listmount|[gs]etxattrat|mseal)' \
  --include='*.cc' --include='*.c' --include='*.h' proto verbs engine tools || true)
[ -z "$found" ] || { printf '%s\nwrite __NR_ instead of SYS_: older libraries do not have the latter\n' "$found"; exit 1; }
