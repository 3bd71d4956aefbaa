#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Our libibverbs.so.1 has every symbol of the system's, in the same version node, and the system's provider libraries,
# which take private ones, load with it.
#   symbols_check.sh OUR_LIBIBVERBS NM
# Exit code 77: there is no libibverbs on this machine.
set -u
ours=$1 nm=$2
# Libraries that programs preload have functions of these names (engine/os/epoll.h).
if "$nm" -D --undefined-only "$ours" | grep ' epoll_'; then
  echo "FAILED: $ours takes epoll from whoever has it"
  exit 1
fi
system=$(ldconfig -p | sed -n 's/.*libibverbs\.so\.1 .*=> //p' | head -n 1)
[ -n "$system" ] || { echo "skipped: no libibverbs.so.1"; exit 77; }

# Default versions only: what a program built today binds to. (The others are the interface from before 2007.)
defaults() { "$nm" -D --with-symbol-versions --defined-only "$1" | awk '{print $NF}'; }
missing=$(comm -23 <(defaults "$system" | grep '@@IBVERBS' | sed 's/@@/@/' | sort) \
                   <(defaults "$ours" | sed 's/@@/@/' | sort))
if [ -n "$missing" ]; then
  echo "FAILED: not in $ours:" $missing
  exit 1
fi

status=0
for library in "$(dirname "$system")"/lib{mlx4,mlx5,efa,mana}.so.1; do
  [ -e "$library" ] || continue
  if ! LD_BIND_NOW=1 LD_PRELOAD="$ours $library" /bin/true; then
    echo "FAILED: $library does not load"
    status=1
  fi
done
exit $status
