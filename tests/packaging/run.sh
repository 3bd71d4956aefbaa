#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is in build/packages (tools/package.sh), in clean systems: installed, used as an ordinary user, removed.
#   tests/packaging/run.sh                     all of it
#   tests/packaging/run.sh deb bookworm        one scenario (tests/packaging/scenarios) in one system
#   tests/packaging/run.sh disabled bookworm   not part of all: meanwhile no program of this machine can use io_uring
# Needs root; systems come from the mirror that apt of this machine uses, once, into build/systems.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/lib/setup.sh
. tests/packaging/system.sh

scenarios=(
  "deb bookworm" "deb bookworm-pytest" "pages bookworm-pages" "examples bookworm-dev" "action bookworm" "cache bookworm-build" "workflows bookworm-ci"
  "tarball bookworm" "tarball bullseye" "tarball trixie" "tarball trixie-pytest" "tarball jammy" "tarball noble"
  "source trixie-build"
  "rpm bullseye-rpm"
)
[ $# -eq 0 ] || scenarios=("$*")
[ "$(id -u)" -eq 0 ] || die "needs root: it makes root file systems"
[ -e build/packages/SHA256SUMS ] || die "no packages: tools/package.sh first"

# shellcheck disable=SC2086
install_packages $PACKAGES_SYSTEMS
mkdir -p "$SYSTEMS"
gcc -static -O1 -o "$SYSTEMS/deny_io_uring.$$" tests/support/deny_io_uring.c
mv "$SYSTEMS/deny_io_uring.$$" "$SYSTEMS/deny_io_uring"

if [ $# -eq 0 ]; then
  say "lintian"
  lintian --fail-on error build/packages/*.deb || die "lintian has found errors"
fi

failed=()
for scenario in "${scenarios[@]}"; do
  # shellcheck disable=SC2086
  set -- $scenario
  say "$scenario"
  if [ "$1" = disabled ]; then
    setting=/proc/sys/kernel/io_uring_disabled
    # shellcheck disable=SC2064
    trap "echo $(cat $setting) >$setting" EXIT
    echo 2 >$setting
  fi
  if prepare_system "$2" && in_system "$2" "$1"; then echo "ok: $scenario"; else failed+=("$scenario"); fi
done
[ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}"
say "all passed"
