#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# uroce for aarch64, from nothing: compiles it with the cross compiler of a clean Debian 12, and runs tests under qemu-user.
# The system is installed once, into build/systems/aarch64; this machine stays as it is.
#   tests/packaging/aarch64.sh             proto, nic, transport
#   tests/packaging/aarch64.sh nic rules   these labels
# Needs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/lib/setup.sh
. tests/packaging/system.sh
[ "$(id -u)" -eq 0 ] || die "needs root: it makes a root file system"

# What tests_NAME of the build makes and ctest -L NAME runs.
labels=("$@")
[ $# -gt 0 ] || labels=(proto nic transport)
system=$SYSTEMS/aarch64
# Both compile and run here, those of the other processor are linked.
NATIVE="crossbuild-essential-arm64 cmake ninja-build pkg-config python3 qemu-user libcli11-dev nlohmann-json3-dev"
LINKED="liburing-dev libpcap-dev libisal-dev libibverbs-dev librdmacm-dev libfmt-dev libgtest-dev libgmock-dev"

# shellcheck disable=SC2086
if [ ! -e "$system.complete" ]; then
  say "a Debian 12 with a cross compiler"
  install_packages $PACKAGES_SYSTEMS
  bootstrap bookworm "$system" >"$system.log" 2>&1 && {
    in_root "$system" dpkg --add-architecture arm64 && in_root "$system" apt-get update -q &&
      in_root "$system" apt-get install -y -q --no-install-recommends $NATIVE ${LINKED// /:arm64 }:arm64
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
  cmake --build build/aarch64 -j$(nproc) --target ${labels[*]/#/tests_} >build/aarch64/build.log 2>&1 ||
  { grep -A 10 'FAILED\|error:' build/aarch64/build.log | head -n 60; exit 1; }"
say "tests: ${labels[*]}"
pattern="^($(IFS='|'; echo "${labels[*]}"))\$"
inside "ctest --test-dir build/aarch64 --no-tests=error --output-on-failure -j$(nproc) -L '$pattern'"
say "all passed"
