#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks uroce for a job of a CI service, without root. On GitHub (action.yml) the steps that follow find it; elsewhere the
# commands that make a shell find it are printed: eval "$(tools/package/ci.sh)".
#   UROCE_TARBALL     path or URL of the tarball; default: that of the release with this version
#   UROCE_CI_RUN      path: `uroce` is found (default); env: all commands find emulated NICs as well
#   UROCE_CI_OPTIONS  options of `uroce env`
#   UROCE_CI_FOLDER   where to unpack; default: $RUNNER_TEMP or $HOME
set -euo pipefail
die() { printf 'uroce: %s\n' "$*" >&2; exit 1; }

version=$(sed -n 's/^project(uroce VERSION \([0-9.]*\) .*/\1/p' "$(dirname "$0")/../../CMakeLists.txt")
name=uroce-$version-linux-x86_64
[ "$(uname -m)" = x86_64 ] || die "there is a tarball for x86_64 only; build uroce on this machine: README.md"
tarball=${UROCE_TARBALL:-}
if [ -z "$tarball" ]; then
  [ -n "${GITHUB_ACTION_REPOSITORY:-}" ] || die "which tarball? Set UROCE_TARBALL to a path or a URL of $name.tar.zst"
  tarball=${GITHUB_SERVER_URL:-https://github.com}/$GITHUB_ACTION_REPOSITORY/releases/download/v$version/$name.tar.zst
fi
command -v zstd >/dev/null || die "zstd is missing; install it before this step"

folder=${UROCE_CI_FOLDER:-${RUNNER_TEMP:-$HOME}}
mkdir -p "$folder"
if [[ $tarball == http*://* ]]; then
  curl -fsSL --retry 3 -o "$folder/uroce.tar.zst" "$tarball" || die "can't load $tarball; name another one as tarball"
  tarball=$folder/uroce.tar.zst
fi
[ -r "$tarball" ] || die "there is no tarball $tarball"
top=$(tar -tf "$tarball" | sed -n '1s,/.*,,p') || true
if [ -z "$top" ] || ! tar -C "$folder" -xf "$tarball"; then die "$tarball is no tarball of uroce"; fi
bin=$folder/$top/bin
"$bin/uroce" --version >&2

github=${GITHUB_ENV:+yes}
if [ -n "$github" ]; then echo "$bin" >>"$GITHUB_PATH"; else printf 'export PATH=%q:"$PATH"\n' "$bin"; fi
case ${UROCE_CI_RUN:-path} in
  path) ;;
  env)
    # shellcheck disable=SC2086
    if [ -n "$github" ]; then "$bin/uroce" env --plain ${UROCE_CI_OPTIONS:-} >>"$GITHUB_ENV"; else "$bin/uroce" env ${UROCE_CI_OPTIONS:-}; fi ;;
  *) die "run: '$UROCE_CI_RUN' is neither path nor env" ;;
esac
