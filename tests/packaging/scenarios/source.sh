# SPDX-License-Identifier: Apache-2.0
# From source with the compiler and the libraries of this system, as README says; then the tests of what is inside.
. /tests/scenarios/common.sh
labels=(proto nic record transport shm cm explain rules)
as_user mkdir /tmp/source
tar -C /uroce --exclude=./build --exclude=./.git -c . | as_user tar -C /tmp/source -x
began=$SECONDS
quietly() { as_user "$@" >/tmp/build.log 2>&1 || { grep -A 10 'FAILED\|rror:' /tmp/build.log | head -n 60; fail "$*"; }; }
quietly cmake -S /tmp/source --preset release "-DUROCE_LEFT_OUT=clients"  # These have more compilers.
quietly cmake --build /tmp/source/build/release
echo "worked: built with $(c++ --version | head -n 1), $(grep -c 'warning:' /tmp/build.log || true) warnings, in $((SECONDS - began)) s"
as_user ctest --test-dir /tmp/source/build/release --no-tests=error -j"$(nproc)" --output-on-failure \
  -L "^($(IFS='|'; echo "${labels[*]}"))\$" >/tmp/tests.log 2>&1 || { tail -n 60 /tmp/tests.log; fail "tests"; }
grep 'tests passed' /tmp/tests.log
export PATH=/tmp/source/build/release/bin:$PATH
meet "uroce run -- ib_write_bw -x 1 -F -n 1000" "uroce run -- ib_write_bw -x 1 -F -n 1000 127.0.0.1"
