#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts uroce into a job of a CI service: unpacks a tarball, without root, or builds it once. On GitHub (action.yml) the steps
# that follow find it; elsewhere the commands that make a shell find it are printed: eval "$(tools/package/ci.sh)".
#   UROCE_TARBALL     path or URL of the tarball; default: that of the release with this version. Where there is none, uroce is
#                     built from these sources; missing packages are installed with apt, as root or with sudo.
#   UROCE_CI_RUN      path: `uroce` is found (default); env: all commands find emulated NICs as well
#   UROCE_CI_OPTIONS  options of `uroce env`
#   UROCE_CI_FOLDER   where to unpack; default: $RUNNER_TEMP or $HOME
#   UROCE_CI_CACHE    what has been built goes there, and is taken from there; default: uroce-cache in that folder
#   tools/package/ci.sh find    only loads the tarball, and tells GitHub the key of the cache if there is none
set -euo pipefail
die() { printf 'uroce: %s\n' "$*" >&2; exit 1; }

source=$(cd "$(dirname "$0")/../.." && pwd)
version=$(sed -n 's/^project(uroce VERSION \([0-9.]*\) .*/\1/p' "$source/CMakeLists.txt")
name=uroce-$version-linux-$(uname -m)
folder=${UROCE_CI_FOLDER:-${RUNNER_TEMP:-$HOME}}
cache=${UROCE_CI_CACHE:-$folder/uroce-cache}
mkdir -p "$folder"

# load URL: its file is $tarball.
load() {
  tarball=$folder/uroce.tar.zst
  [ -e "$tarball" ] || { curl -fsSL --retry 3 -o "$tarball.part" "$1" && mv "$tarball.part" "$tarball"; }
}

# find_tarball: which it is, in $tarball. False: there is none.
find_tarball() {
  tarball=${UROCE_TARBALL:-}
  case $tarball in
    http*://*) load "$tarball" || die "can't load $UROCE_TARBALL; name another one as tarball" ;;
    ?*) [ -r "$tarball" ] || die "there is no tarball $tarball" ;;
    *)
      # Releases have a tarball of this processor only.
      [ -n "${GITHUB_ACTION_REPOSITORY:-}" ] && [ "$(uname -m)" = x86_64 ] &&
        load "${GITHUB_SERVER_URL:-https://github.com}/$GITHUB_ACTION_REPOSITORY/releases/download/v$version/$name.tar.zst" ;;
  esac
}

# What the build reads: a change elsewhere, in a page, a test or a lesson, needs no new one. tests/packaging (cache) builds from
# these alone. README.md and its like come along, but nobody reads them in a cache.
sources=(CMakeLists.txt engine proto tests/judged/sim tools verbs)

# What has been built fits this distribution, this processor and these sources. What programs leave among them is none.
cache_key() {
  # shellcheck disable=SC1091
  printf 'uroce-%s-%s-' "$(. /etc/os-release && echo "$ID${VERSION_ID:-}")" "$(uname -m)"
  (cd "$source" && find "${sources[@]}" \( -path tools/learn -o -name __pycache__ \) -prune -o -type f -print0 |
    LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c 1-16)
}

# unpack: the tarball; its folder is $prefix.
unpack() {
  local top
  command -v zstd >/dev/null || die "zstd is missing; install it before this step"
  top=$(tar -tf "$tarball" | sed -n '1s,/.*,,p') || true
  if [ -z "$top" ] || ! tar -C "$folder" -xf "$tarball"; then die "$tarball is no tarball of uroce"; fi
  prefix=$folder/$top
}

# finds_libraries: whether what has been built finds all that it is linked with.
finds_libraries() {
  local found
  # ldd fails for what is no program, too: its words count.
  found=$(ldd "$prefix"/bin/uroce "$prefix"/lib/uroce/* 2>/dev/null) || true
  [[ $found != *"not found"* ]]
}

# build: these sources, unless $prefix in the cache has them already.
build() {
  prefix=$cache/${UROCE_CI_KEY:-$(cache_key)}
  if [ -x "$prefix/bin/uroce" ] && finds_libraries; then return; fi
  # shellcheck disable=SC1091
  . "$source/tools/lib/setup.sh"
  # shellcheck disable=SC2086
  (install_packages $PACKAGES_BUILD) || die "no tarball, and it can't be built here: set UROCE_TARBALL to a path or a URL of $name.tar.zst"
  # What it is linked with may have come with them.
  if [ -x "$prefix/bin/uroce" ] && finds_libraries; then return; fi
  local tree=$folder/uroce-build
  # Many sources at once, five times as fast.
  { cmake -S "$source" -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG" \
      -DUROCE_TESTS=OFF -DUROCE_BENCH=OFF -DUROCE_LESSONS=OFF -DUROCE_UNITY=ON && cmake --build "$tree" &&
      cmake --install "$tree" --prefix "$prefix.part" --strip; } >"$folder/uroce-build.log" 2>&1 ||
    { tail -n 40 "$folder/uroce-build.log"; die "it could not be built"; }
  rm -rf "$tree" "$prefix"
  mv "$prefix.part" "$prefix"
}

if [ "${1:-}" = find ]; then
  if find_tarball; then echo "key="; else echo "key=$(cache_key)"; fi >>"$GITHUB_OUTPUT"
  exit
fi
case ${UROCE_CI_RUN:-path} in path | env) ;; *) die "run: '$UROCE_CI_RUN' is neither path nor env" ;; esac
# What `find` has not found needs no second search.
if [ -z "${UROCE_CI_KEY:-}" ] && find_tarball; then unpack; else build >&2; fi
bin=$prefix/bin
"$bin/uroce" --version >&2

github=${GITHUB_ENV:+yes}
if [ -n "$github" ]; then echo "$bin" >>"$GITHUB_PATH"; else printf 'export PATH=%q:"$PATH"\n' "$bin"; fi
if [ "${UROCE_CI_RUN:-path}" = env ]; then
  # shellcheck disable=SC2086
  if [ -n "$github" ]; then "$bin/uroce" env --plain ${UROCE_CI_OPTIONS:-} >>"$GITHUB_ENV"; else "$bin/uroce" env ${UROCE_CI_OPTIONS:-}; fi
fi
