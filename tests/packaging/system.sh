# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: root file systems, and scenarios in them.
# shellcheck shell=bash
. tools/package/mirror.sh

SYSTEMS=$ROOT/build/systems
# What scenarios run: programs that know nothing of uroce.
SYSTEM_PACKAGES="ibverbs-utils perftest rdmacm-utils zstd"

# RELEASE-VARIANT is a system with these besides.
declare -A VARIANTS=(
  [dev]="gcc g++ libc6-dev make cmake libibverbs-dev libgtest-dev python3-pytest"
  [pytest]="python3-pytest"
  [ci]="gcc g++ libc6-dev make cmake libibverbs-dev python3-pyverbs openmpi-bin libopenmpi-dev cargo"
  [pages]="iproute2 nftables procps python3 qperf tshark"
  [rpm]="rpm"
  [build]=$PACKAGES_BUILD
)
# Seconds for a scenario, where 300 are too few: it compiles all of uroce, or runs all lessons.
declare -A LIMITS=([cache]=1800 [source]=1800 [pages]=900)

# bootstrap RELEASE FOLDER: the least that can install packages, from the mirror of this machine.
bootstrap() {
  local release=$1 mirror script components=main
  mirror=$(debian_mirror)
  script=/usr/share/debootstrap/scripts/$release
  [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
  case $release in jammy | noble) mirror=${mirror%/debian*}/ubuntu components=main,universe script=/usr/share/debootstrap/scripts/gutsy ;; esac
  rm -rf "$2"
  # Keys of other distributions are not on this machine, and nothing from there leaves the tests.
  debootstrap --variant=minbase --no-check-gpg --components=$components "$release" "$2" "$mirror" "$script" &&
    cp /etc/resolv.conf /etc/hosts "$2/etc/"
}

# prepare_system RELEASE[-VARIANT]: installs it, and the programs, unless it is there.
prepare_system() {
  local release=${1%-*} system=$SYSTEMS/$1 log=$SYSTEMS/$1.log needed
  [ -e "$system.complete" ] && return
  if [ "$release" != "$1" ]; then
    prepare_system "$release" && rm -rf "$system" && cp -a "$SYSTEMS/$release" "$system" || return 1
    # shellcheck disable=SC2086
    in_root "$system" apt-get install -y -q --no-install-recommends ${VARIANTS[${1#*-}]} >"$log" 2>&1 || { tail -n 20 "$log" >&2; return 1; }
    touch "$system.complete"
    return
  fi
  # The scenarios have no network, so what our package depends on is there already.
  needed=
  [ "$release" != bookworm ] || needed=$(dpkg-deb -f "$ROOT"/build/packages/uroce_*.deb Depends)
  mkdir -p "$SYSTEMS"
  # shellcheck disable=SC2086
  { bootstrap "$release" "$system" &&
    in_root "$system" apt-get install -y -q --no-install-recommends $SYSTEM_PACKAGES &&
    if [ -n "$needed" ]; then in_root "$system" apt-get satisfy -y -q --no-install-recommends "$needed"; fi; } >"$log" 2>&1 ||
    { tail -n 20 "$log" >&2; echo "could not install $release" >&2; return 1; }
  touch "$system.complete"
}

in_root() { # in_root FOLDER COMMAND...
  local root=$1
  shift
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@" </dev/null
}

# in_system RELEASE SCENARIO: runs scenarios/SCENARIO.sh as root in a copy of the system that is thrown away afterwards, with
# a network of its own. It finds the packages in /packages, this folder in /tests, the
# repository in /uroce.
in_system() {
  local system=$SYSTEMS/$1 scenario=$2
  local layer=$SYSTEMS/$1.layer
  rm -rf "$layer"
  mkdir -p "$layer/top" "$layer/work" "$layer/root"
  SYSTEM=$system LAYER=$layer PACKAGES=$ROOT/build/packages TESTS=$ROOT/tests/packaging SCENARIO=$scenario \
    timeout "${LIMITS[$scenario]:-300}" unshare --mount --net --pid --fork --kill-child bash -euc '
      mount -t tmpfs none "$LAYER" && mkdir "$LAYER/top" "$LAYER/work" "$LAYER/root"
      mount -t overlay overlay -o "lowerdir=$SYSTEM,upperdir=$LAYER/top,workdir=$LAYER/work" "$LAYER/root"
      cd "$LAYER/root"
      mkdir packages tests examples uroce
      mount --bind -o ro "$PACKAGES" packages
      mount --bind -o ro "$TESTS" tests
      mount --bind -o ro "$TESTS/../../docs/examples" examples
      mount --bind -o ro "$TESTS/../.." uroce
      mount -t proc proc proc
      mount --rbind /dev dev
      ip link set lo up
      exec chroot . env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp bash -eu "/tests/scenarios/$SCENARIO.sh"'
  local status=$?
  rm -rf "$layer"
  return $status
}
