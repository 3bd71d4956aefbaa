# SPDX-License-Identifier: Apache-2.0
# docs/examples, against the installed packages.
. /tests/scenarios/common.sh
dpkg -i /packages/*.deb >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "dpkg -i"; }

as_user cp -r /examples/cmake /tmp/cmake
as_user cmake -S /tmp/cmake -B /tmp/cmake/build >/tmp/cmake.log && as_user cmake --build /tmp/cmake/build >>/tmp/cmake.log ||
  { cat /tmp/cmake.log; fail "the example for CMake"; }
as_user ctest --test-dir /tmp/cmake/build --output-on-failure || fail "the tests of the example for CMake"
[ -s /tmp/cmake/build/two_nics.pcapng ] || fail "no capture of a test"

as_user /tests/gtest_example.sh /examples/gtest /usr

# A whole shell, as a CI job has it.
as_user bash -c 'eval "$(uroce env --devices 2)"; ibv_devices' | grep -q uroce1 || fail "uroce env"
