#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# uroce for aarch64, from nothing: compiles all of it with the cross compiler of a clean Debian 12, runs tests and two NICs
# under qemu-user. The system is installed once, into build/systems/aarch64; this machine stays as it is.
#   tests/packaging/aarch64.sh                 proto, nic, record, transport, shm, cm, rules; two NICs, perftest
#   tests/packaging/aarch64.sh nic transport   these labels only, and what they need
# Needs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/lib/setup.sh
. tests/packaging/system.sh
[ "$(id -u)" -eq 0 ] || die "needs root: it makes a root file system"

# What tests_NAME of the build makes and ctest -L NAME runs.
labels=("$@")
programs=()
if [ $# -eq 0 ]; then
  labels=(proto nic record transport shm cm rules)
  programs=(uroce uroce-broker uroce_libibverbs rdma_server rdma_client uroce-sim ibverbs_test)
fi
system=$SYSTEMS/aarch64
# These compile and run here; those of the other processor are run there, or linked.
NATIVE="crossbuild-essential-arm64 cmake ninja-build pkg-config python3 qemu-user libcli11-dev nlohmann-json3-dev"
PROGRAMS="ibverbs-utils perftest"
LINKED="liburing-dev libpcap-dev libisal-dev libibverbs-dev librdmacm-dev libfmt-dev libgtest-dev libgmock-dev"

# shellcheck disable=SC2086
if [ ! -e "$system.complete" ]; then
  say "a Debian 12 with a cross compiler"
  install_packages $PACKAGES_SYSTEMS
  mkdir -p "$SYSTEMS"
  bootstrap bookworm "$system" >"$system.log" 2>&1 && {
    in_root "$system" dpkg --add-architecture arm64 && in_root "$system" apt-get update -q &&
      in_root "$system" apt-get install -y -q --no-install-recommends $NATIVE ${LINKED// /:arm64 }:arm64 ${PROGRAMS// /:arm64 }:arm64
  } >>"$system.log" 2>&1 || { tail -n 20 "$system.log" >&2; die "could not install it: $system.log"; }
  touch "$system.complete"
fi

# inside COMMAND: by sh in that system, in the repository, of which only build/aarch64 can be written.
mkdir -p "$system/uroce" build/aarch64
inside() {
  SYSTEM=$system SOURCE=$ROOT COMMAND=$1 unshare --mount --net --pid --fork --kill-child bash -euc '
    mount --bind -o ro "$SOURCE" "$SYSTEM/uroce"
    mount --bind "$SOURCE/build/aarch64" "$SYSTEM/uroce/build/aarch64"
    mount -t proc proc "$SYSTEM/proc"
    mount --rbind /dev "$SYSTEM/dev"
    ip link set lo up
    exec chroot "$SYSTEM" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp UROCE_ENGINE=socket \
      sh -euc "cd /uroce; $COMMAND"'
}
say "building"
inside "cmake --preset aarch64 >build/aarch64/cmake.log 2>&1 || { cat build/aarch64/cmake.log; exit 1; }
  cmake --build build/aarch64 -j$(nproc) --target ${labels[*]/#/tests_} ${programs[*]} >build/aarch64/build.log 2>&1 ||
  { grep -A 10 'FAILED\|error:' build/aarch64/build.log | head -n 60; exit 1; }"
say "tests: ${labels[*]}"
pattern="^($(IFS='|'; echo "${labels[*]}"))\$"
# qemu-user does not know the socket option by which the kernel gives packets to slots (SO_ATTACH_REUSEPORT_CBPF), nor
# the netlink family that tells whose a socket is (NETLINK_SOCK_DIAG).
inside "ctest --test-dir build/aarch64 --no-tests=error --output-on-failure -j$(nproc) -L '$pattern' -E '^ShmSlotsTest|WhoHasItsNameIsNamed'"
[ ${#programs[@]} -gt 0 ] || exit 0

say "memory that goes, words that are seen whole"
inside "qemu-aarch64 build/aarch64/bin/ibverbs_test --gtest_brief=1 --gtest_filter='GuardedAccess.*:LostMemory*'"

say "two NICs"
# No program starts another one: the kernel of this machine would not know what to do with it.
inside 'qemu-aarch64 build/aarch64/bin/rdma_server >/tmp/server.log & server=$!
  until qemu-aarch64 build/aarch64/bin/rdma_client 127.0.0.1 --op mixed --iters 100 --verify --faults loss=1%; do
    kill -0 $server; sleep 0.3
  done
  wait $server || { cat /tmp/server.log; exit 1; }
  qemu-aarch64 build/aarch64/bin/uroce-sim --seed 1'
say "two programs that know nothing of uroce"
inside 'run() { qemu-aarch64 -E LD_PRELOAD=$PWD/build/aarch64/lib/libibverbs.so.1 "$@"; }
  run /usr/bin/ibv_devinfo
  run /usr/bin/ib_write_bw -x 1 -F -n 100 >/tmp/server.log & server=$!
  until run /usr/bin/ib_write_bw -x 1 -F -n 100 127.0.0.1; do kill -0 $server; sleep 0.3; done
  wait $server || { cat /tmp/server.log; exit 1; }'
say "all passed"
