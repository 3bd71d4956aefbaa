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

as_user cp -r /examples/pytest /tmp/pytest
as_user python3 -m pytest -p no:cacheprovider -q /tmp/pytest || fail "the example for pytest"
# A test that fails keeps its capture, and says where.
cat >/tmp/pytest/test_fails.py <<'TEST'
def test_fails(uroce_pair):
    uroce_pair.run(["ibv_rc_pingpong", "-g", "1"], ["ibv_rc_pingpong", "-g", "1", "127.0.0.1"])
    assert False
TEST
as_user python3 -m pytest -p no:cacheprovider -q /tmp/pytest/test_fails.py >/tmp/fails.log && fail "a test that must fail"
capture=$(grep -o '/tmp/.*nic0.pcapng' /tmp/fails.log) || { cat /tmp/fails.log; fail "no capture in the failure"; }
as_user uroce explain "$capture" >/tmp/explained.log || { cat /tmp/explained.log; fail "uroce explain $capture"; }
echo "worked: captures of a test that fails"

# A whole shell, as a CI job has it.
as_user bash -c 'eval "$(uroce env --devices 2)"; ibv_devices' | grep -q uroce1 || fail "uroce env"
