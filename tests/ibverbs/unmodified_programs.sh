#!/bin/bash
# Programs of Debian's ibverbs-utils, as they come, on the emulated NIC.
#   unmodified_programs.sh DIRECTORY_OF_LIBIBVERBS
# Exit code 77: the programs are not installed.
set -u
export LD_LIBRARY_PATH=$1
for program in ibv_devices ibv_devinfo ibv_rc_pingpong; do
  command -v "$program" > /dev/null || { echo "skipped: no $program"; exit 77; }
done

fail() { echo "FAILED: $*"; exit 1; }

export UROCE_DEVICES=2
ibv_devices | grep -q uroce1 || fail "ibv_devices does not list uroce1"
info=$(ibv_devinfo -v -d uroce0) || fail "ibv_devinfo"
for text in 'PORT_ACTIVE' 'link_layer:.*Ethernet' '::ffff:127\.' 'RoCE v2'; do
  grep -q "$text" <<< "$info" || fail "ibv_devinfo does not say $text: $info"
done
unset UROCE_DEVICES

# pingpong OPTIONS...: two processes. The client tries again until the server listens.
pingpong() {
  local port=$((20000 + $$ % 20000)) deadline=$((SECONDS + 30)) server client_rc=1
  timeout 60 ibv_rc_pingpong -g 1 -c -p "$port" "$@" > /dev/null &
  server=$!
  while ((client_rc != 0)) && kill -0 "$server" 2> /dev/null && ((SECONDS < deadline)); do
    timeout 60 ibv_rc_pingpong -g 1 -c -p "$port" "$@" 127.0.0.1 > /dev/null 2>&1
    client_rc=$?
  done
  wait "$server" || fail "server of ibv_rc_pingpong $*"
  ((client_rc == 0)) || fail "client of ibv_rc_pingpong $*"
}
pingpong -n 200                  # Polls.
pingpong -n 200 -e               # Sleeps on a completion channel.
pingpong -n 20 -s 100000 -m 4096 # Many packets a message.
echo "all of them work"
