#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy (.clang-tidy, tests/.clang-tidy) over the sources.
#   tools/tidy.sh                        those of proto, verbs, engine and tools: some ten minutes on two cores
#   tools/tidy.sh --tests                those of tests: about twice that
#   tools/tidy.sh --since COMMIT         those that differ from COMMIT, of tests too
#   tools/tidy.sh --seconds N ...        begins no file after N seconds, and says how many were left out
# Exits with 1 when it found something. tools/check.sh runs it with --since and --seconds.
set -euo pipefail
# shellcheck source=tools/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"
cd "$ROOT"
product=(':(glob)proto/**/*.cc' ':(glob)verbs/**/*.cc' ':(glob)engine/**/*.cc' ':(glob)tools/**/*.cc')
tests=(':(glob)tests/**/*.cc')
sources=("${product[@]}") since="" seconds=86400
while [ $# -gt 0 ]; do
  case $1 in
    --since) since=$2 sources=("${product[@]}" "${tests[@]}"); shift 2 ;;
    --tests) sources=("${tests[@]}"); shift ;;
    --seconds) seconds=$2; shift 2 ;;
    *) die "what is $1? (--tests, --since COMMIT, --seconds N)" ;;
  esac
done
install_packages clang-tidy
# build/release compiles many sources at once, so it does not know what each of them needs.
[ -f build/debug/compile_commands.json ] || cmake --preset debug >/dev/null
cmake --build build/debug --target tools/version/uroce_commit.h >/dev/null  # version.cc includes it.

if [ -n "$since" ]; then
  # What was changed last comes first: a short run looks at what no run before it can have seen.
  mapfile -t files < <({ git diff --name-only HEAD; git log --format= --name-only "$since..HEAD"; } |
    grep -Fxf <(git diff --name-only --diff-filter=d "$since" -- "${sources[@]}") | awk '!seen[$0]++')
else
  mapfile -t files < <(git ls-files -- "${sources[@]}")
fi
[ ${#files[@]} -gt 0 ] || { echo "tidy: no file has changed"; exit 0; }

found=$(mktemp) begun=$(mktemp)
trap 'rm -f "$found" "$begun"' EXIT
export UROCE_TIDY_END=$(($(date +%s) + seconds)) UROCE_TIDY_BEGUN=$begun
# What the compiler says of its own is not asked: -w.
status=0
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -I{} bash -c '
  [ "$(date +%s)" -lt "$UROCE_TIDY_END" ] || exit 0
  echo "$1" >>"$UROCE_TIDY_BEGUN"
  clang-tidy -p build/debug --quiet --warnings-as-errors="*" --extra-arg=-w "$1" 2>/dev/null || {
    code=$?
    [ $code -le 128 ] || echo "tidy: clang-tidy crashed on $1 (exit status $code)"
    exit 1
  }' _ {} >"$found" || status=1
cat "$found"
echo "tidy: $(wc -l <"$begun") of ${#files[@]} files looked at"
exit $status
