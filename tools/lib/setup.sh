# SPDX-License-Identifier: Apache-2.0
# Sourced by tools/*.sh: where we are, what has to be installed, how to say things.
# shellcheck shell=bash

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# The only list of packages. Building; then what packages, benchmarks, tests and the demo need besides.
PACKAGES_BUILD="build-essential cmake ninja-build pkg-config liburing-dev libpcap-dev libisal-dev libibverbs-dev librdmacm-dev
  libcli11-dev libfmt-dev nlohmann-json3-dev libgtest-dev libgmock-dev libbenchmark-dev python3"
PACKAGES_PACKAGE="dpkg-dev file fakeroot rpm zstd flex bison python3"
# For tests/packaging: clean systems; containers.
PACKAGES_SYSTEMS="debootstrap lintian gcc libc6-dev iproute2 util-linux zstd"
PACKAGES_CONTAINER="podman buildah runc iproute2 netavark aardvark-dns iptables catatonit podman-compose"
PACKAGES_BENCH="iperf3 ucx-utils rdmacm-utils perftest python3"
PACKAGES_TEST="clang clang-format lld tshark tcpdump iproute2 util-linux python3 ibverbs-utils rdmacm-utils librdmacm1 perftest
  qperf python3-pyverbs python3-yaml ucx-utils openmpi-bin libopenmpi-dev libfabric-bin fio valgrind nftables
  mpich libmpich-dev tgt libiscsi-bin infiniband-diags iperf faketime"

# Rendering docs/ as a site (tools/learn/site.sh).
PACKAGES_SITE="python3-sphinx python3-myst-parser python3-jieba"

say() { printf '\n== %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# install_packages PACKAGE...: installs with apt what dpkg does not have yet.
install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "these packages are missing and neither root nor sudo is at hand: ${missing[*]}"
    as_root=(sudo)
  fi
  command -v apt-get >/dev/null || die "no apt-get here; install by hand: ${missing[*]}"
  # wireshark-common would ask whether users may capture.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    </dev/null >/dev/null || die "apt-get could not install: ${missing[*]}"
}

# build PRESET [TARGET...]: configures and builds; quiet unless something is wrong. $LEFT_OUT: labels of tests that are not built;
# $UNITY_BATCH: UROCE_UNITY_BATCH.
build() {
  local preset=$1 log
  shift
  say "building (preset $preset)"
  log=$(mktemp)
  # Large pages for the compiler's memory, a fifth of clang's time (glibc 2.35; other versions ignore what they don't know).
  local -x GLIBC_TUNABLES=${GLIBC_TUNABLES:+$GLIBC_TUNABLES:}glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864
  if ! { cmake -S "$ROOT" --preset "$preset" "-DUROCE_LEFT_OUT=${LEFT_OUT:-}" ${UNITY_BATCH:+"-DUROCE_UNITY_BATCH=$UNITY_BATCH"} && cmake --build "$ROOT/build/$preset" ${1:+--target "$@"}; } >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    rm -f "$log"
    die "the build failed"
  fi
  rm -f "$log"
}
