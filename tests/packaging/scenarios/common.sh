# SPDX-License-Identifier: Apache-2.0
# Sourced by the scenarios, inside the system.
# shellcheck shell=bash
fail() { echo "FAILED: $*" >&2; exit 1; }

# as_user COMMAND...: as nobody in particular, without any rights.
as_user() { (cd /tmp && setpriv --reuid 1234 --regid 1234 --clear-groups --inh-caps=-all "$@"); }

# meet SERVER CLIENT: runs both commands of sh; the client again until the server listens. Both must succeed.
meet() {
  local server end=$((SECONDS + 30))
  as_user sh -c "$1" >/tmp/server.log 2>&1 &
  server=$!
  until as_user sh -c "$2" >/tmp/client.log 2>&1; do
    [ $SECONDS -lt $end ] || { cat /tmp/server.log /tmp/client.log; fail "$2"; }
    kill -0 $server 2>/dev/null || { cat /tmp/server.log /tmp/client.log; fail "$1"; }
    sleep 0.1
  done
  wait $server || { cat /tmp/server.log; fail "$1"; }
  echo "worked: $2"
}

# use_login: `uroce enable` is for login shells, and `uroce disable` takes it away.
use_login() {
  as_user mkdir -p "/tmp/a home"
  as_user env HOME="/tmp/a home" uroce enable --devices 2 >/dev/null || fail "uroce enable"
  as_user env HOME="/tmp/a home" bash -lc ibv_devices | grep -q uroce1 || fail "no two NICs after the next login"
  as_user env HOME="/tmp/a home" sh -lc ibv_devices | grep -q uroce1 || fail "no two NICs after a login with sh"
  as_user env HOME="/tmp/a home" uroce disable >/dev/null || fail "uroce disable"
  [ -z "$(ls -A "/tmp/a home")" ] || fail "uroce disable leaves $(ls -A "/tmp/a home")"
  echo "worked: uroce enable, uroce disable"
}

# use_control: a test decides what is lost while a program runs.
use_control() {
  as_user uroce run --control on -- ib_write_bw -x 1 -F -n 100 >/tmp/server.log 2>&1 &
  local server=$! end=$((SECONDS + 30))
  until as_user uroce ctl all lose 1 op:ack >/tmp/ctl.log 2>&1; do
    [ $SECONDS -lt $end ] || { cat /tmp/ctl.log; fail "uroce ctl"; }
    sleep 0.1
  done
  until as_user uroce run -- ib_write_bw -x 1 -F -n 100 127.0.0.1 >/tmp/client.log 2>&1; do
    [ $SECONDS -lt $end ] || { cat /tmp/client.log; fail "the client"; }
    sleep 0.1
  done
  wait $server || { cat /tmp/server.log; fail "the server under uroce ctl"; }
  echo "worked: uroce ctl"
}

# use_pytest: the example, and a test that fails: its captures are kept, and a sentence says what broke.
use_pytest() {
  as_user rm -rf /tmp/pytest
  as_user cp -r /examples/pytest /tmp/pytest
  as_user "$@" python3 -m pytest -p no:cacheprovider -q /tmp/pytest || fail "the example for pytest"
  cat >/tmp/pytest/test_fails.py <<'TEST'
import pytest

@pytest.mark.uroce_faults("drop=op:ack")
def test_fails(uroce_pair):
    program = ["ib_write_bw", "-x", "1", "-F", "-n", "5", "-u", "8"]
    uroce_pair.run(program, [*program, "127.0.0.1"])
TEST
  as_user "$@" python3 -m pytest -p no:cacheprovider -q /tmp/pytest/test_fails.py >/tmp/fails.log && fail "a test that must fail"
  grep -q '^nic1: RETRY_EXC_ERR on QP 0x.*no answer' /tmp/fails.log || { cat /tmp/fails.log; fail "no sentence in the failure"; }
  capture=$(grep -o '^/tmp/.*nic1.pcapng' /tmp/fails.log) || { cat /tmp/fails.log; fail "no capture in the failure"; }
  as_user uroce explain "$capture" >/tmp/explained.log || { cat /tmp/explained.log; fail "uroce explain $capture"; }
  echo "worked: captures of a test that fails"
}

# use_it [SERVER CLIENT]: what a user does first; `uroce` and the tools are in PATH, the latter under these names.
use_it() {
  as_user uroce doctor >/tmp/doctor.log || { cat /tmp/doctor.log; fail "uroce doctor"; }
  grep "io_uring:" /tmp/doctor.log
  as_user uroce run -- ibv_devices | grep -q uroce0 || fail "ibv_devices"
  as_user uroce run -- sh -c 'cat /sys/class/infiniband/uroce0/ports/1/state' | grep -q ACTIVE || fail "the view of /sys"
  meet "uroce run -- ib_write_bw -x 1 -F -n 100" "uroce run -- ib_write_bw -x 1 -F -n 100 127.0.0.1"
  meet "uroce run -- ibv_rc_pingpong -g 1 -c" "uroce run -- ibv_rc_pingpong -g 1 -c 127.0.0.1"
  meet "UROCE_ADDR=127.0.0.9 uroce run -- rping -s -C 3" "UROCE_ADDR=127.0.0.8 uroce run -- rping -c -a 127.0.0.9 -C 3"
  meet "${1:-rdma_server}" "${2:-rdma_client} 127.0.0.1 --op mixed --iters 100 --verify --faults loss=1%"
  as_user uroce-sim --seed 1 >/dev/null || fail "uroce-sim"
  use_login
  use_control
}
