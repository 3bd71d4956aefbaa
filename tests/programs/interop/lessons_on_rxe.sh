#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lessons_on_rxe.sh [BIN_DIR]: runs the lessons on verbs (docs/learn, 20 to 48) on the kernel's Soft-RoCE in the lab's guest: the
# same binaries as `uroce run` uses. Prints what differs from the pages, which show uroce's output; the pages say why. Exit
# status 0 when every lesson came to its end. The lab is started, and stopped again.
set -euo pipefail
# shellcheck source=tests/programs/interop/env.sh
. "$(dirname "$0")/env.sh"
source=$(cd "$HERE/../../.." && pwd)
bin=$(realpath "${1:-$source/build/release/bin}")
lab=$HERE/lab

"$lab" status >/dev/null 2>&1 && die "the lab runs already; somebody may be using it"
rm -rf "$LAB/share/learn"
mkdir -p "$LAB/share/learn"
cp "$bin"/learn/[234]* "$LAB/share/learn/"
# The guest has no librdmacm of its own.
cp "$(ldconfig -p | awk '/librdmacm.so.1 / {print $NF; exit}')" "$LAB/share/learn/"
"$lab" up
trap '"$lab" down; rm -rf "$LAB/share/learn"' EXIT

# What the page shows behind the command of a lesson, without measured numbers.
shown() {
  awk -v name="$1" '/^```/ {show = 0} show && /^\$/ {exit} show {print} /^\$ / && index($0, "-- " name) {show = 1}' \
    "$source/docs/learn/en/$1.md"
}
plain() { sed -E 's/~[0-9.]+/~/g; s/ +$//'; }

failed=0
for program in "$LAB"/share/learn/[234]*; do
  name=$(basename "$program") arguments=
  case $name in
    30_rdma_cm) arguments=$GUEST_IPV4 ;;
    44_wrong_gid_index) arguments=1 ;;
  esac
  output=$("$lab" exec "LD_LIBRARY_PATH=/lab/learn timeout 20 /lab/learn/$name $arguments 2>&1") && status=0 || status=$?
  echo "== $name: exit status $status"
  [ "$status" -eq 0 ] || failed=1
  diff <(shown "$name" | plain) <(plain <<<"$output") || true
done
exit $failed
