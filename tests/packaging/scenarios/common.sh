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
}
