#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gtest_example.sh EXAMPLE PREFIX: the example for GoogleTest against an installed uroce: its tests pass; when a connection
# breaks that should not, the packets are kept, and the first sentence says why.
set -eu
example=$1 prefix=$2
unset "${!UROCE_@}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { cat "$tmp/log"; echo "FAILED: $*"; exit 1; }

cp -r "$example" "$tmp/example"
build() { cmake --build "$tmp/build" >>"$tmp/log" 2>&1 || fail "build"; }
cmake -S "$tmp/example" -B "$tmp/build" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wconversion -Wold-style-cast -Werror" >"$tmp/log" 2>&1 || fail "cmake"
build
ctest --test-dir "$tmp/build" --output-on-failure >>"$tmp/log" 2>&1 || fail "the tests"
[ ! -e "$tmp/build/failed-tests" ] || fail "tests that passed have left something"

sed -i 's/kRetries = 7/kRetries = 0/' "$tmp/example/lost_ack_test.cc"
build
! ctest --test-dir "$tmp/build" --output-on-failure >"$tmp/log" 2>&1 || fail "a test that should fail"
grep -q '^uroce: RETRY_EXC_ERR on QP 0x.*no answer' "$tmp/log" || fail "no sentence"
[ -s "$tmp/build/failed-tests/Loop.ALostAckIsRepaired.pcapng" ] || fail "no packets"
[ "$(find "$tmp/build/failed-tests" -maxdepth 1 -name '*.pcapng' | wc -l)" = 1 ] || fail "packets of a test that passed"
echo "worked: the example for GoogleTest"
