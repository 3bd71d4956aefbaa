#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The commands of `uroce`: what they print, and the exit status that `uroce run` gives or hands on.
#   uroce_command.sh PATH_OF_UROCE
set -u
uroce=$1
unset "${!UROCE_@}"

fail() { echo "FAILED: $*"; exit 1; }
# expect STATUS TEXT COMMAND...: the exit status, and a text (or "") in what is printed.
expect() {
  local status=$1 text=$2 output got
  shift 2
  output=$("$@" 2>&1)
  got=$?
  [ $got = "$status" ] || fail "$* ended with $got instead of $status: $output"
  [[ $output == *"$text"* ]] || fail "$* does not say '$text': $output"
}

expect 0 'uroce1' env UROCE_DEVICES=2 "$uroce" devices
expect 0 'UROCE_ENGINE=socket' env UROCE_ADDR=127.9.9.1 UROCE_ENGINE=socket "$uroce" info
expect 0 '127.9.9.1' env UROCE_ADDR=127.9.9.1 "$uroce" gids
# An automatic NIC leaves the addresses alone that others have by name.
guids=$(UROCE_ADDR='127.0.0.2;127.0.0.1' UROCE_DEVICES=4 "$uroce" devices | tail -n 4 | awk '{print $2}' | sort -u | wc -l)
[ "$guids" = 4 ] || fail "four NICs have $guids GUIDs"
expect 1 'must be a number' env UROCE_ADDR=127.9.9.1 UROCE_DEVICES=none "$uroce" devices
# Programs that get nothing from the environment, or have no loader. A script may be anything.
expect 0 'warning: /sbin/ldconfig is linked statically' "$uroce" run -- /sbin/ldconfig --version
musl=$(mktemp -d)
echo 'int main(void) { return 0; }' | cc -x c - -o "$musl/program" -Wl,--dynamic-linker=/none/ld-musl-x86_64.so.1 || fail "cc"
expect 127 "warning: $musl/program is linked with musl" "$uroce" run -- "$musl/program"
rm -r "$musl"
if setpriv --reuid=65534 --regid=65534 --clear-groups -- test -x "$uroce" 2>/dev/null; then
  as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  expect 0 'warning: su gets other rights' "${as_user[@]}" -- "$uroce" run -- su --version
  [ "$("${as_user[@]}" --no-new-privs -- "$uroce" run -- su --version 2>&1 >/dev/null)" = "" ] || fail "su without new rights"
  # The kernel tells the loader so, even where no new rights are given.
  capable=$(mktemp -d) && chmod 755 "$capable" && cp "$(type -P true)" "$capable/true"
  if setcap cap_net_raw+ep "$capable/true" 2>/dev/null; then
    expect 0 'true gets other rights' "${as_user[@]}" --no-new-privs -- "$uroce" run -- "$capable/true"
    setcap cap_net_raw+p "$capable/true"
    expect 0 'true gets other rights' "${as_user[@]}" -- "$uroce" run -- "$capable/true"
    [ "$("${as_user[@]}" --no-new-privs -- "$uroce" run -- "$capable/true" 2>&1)" = "" ] || fail "capabilities that nobody gets"
  fi
  rm -r "$capable"
  # A user namespace knows some users; rights of others are not given.
  if "${as_user[@]}" -- unshare -r true 2>/dev/null; then
    [ "$("${as_user[@]}" -- unshare -r "$uroce" run -- su --version 2>&1 >/dev/null)" = "" ] || fail "su of a user that is not known"
  fi
fi
sudo=$(mktemp -d)
printf '#!/bin/sh\n' >"$sudo/sudo" && chmod +x "$sudo/sudo"
expect 0 "warning: sudo gives what it starts no NIC of uroce: write 'sudo uroce run -- ...'" env PATH="$sudo:$PATH" "$uroce" run -- sudo true
rm -r "$sudo"
for command in 'su --version' 'true' 'ldd --version'; do
  # shellcheck disable=SC2086
  [ "$("$uroce" run -- $command 2>&1 >/dev/null)" = "" ] || fail "uroce run -- $command: a warning"
done
expect 0 'tshark' "$uroce" doctor
# Hexadecimal and octal are for no number.
expect 2 "--port: '0x12' is not a number from 0 to 65535" "$uroce" doctor --port 0x12
expect 2 "pid: '0x12' is not a number from" "$uroce" record 0x12
expect 0 "127.9.9.3: in use by python3" python3 -c '
import socket, subprocess, sys
taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
taken.bind(("127.9.9.3", 4791))
sys.exit(subprocess.run([sys.argv[1], "doctor"]).returncode)' "$uroce"
# It opens a NIC for real, which shows what a process lacks.
expect 1 'raise RLIMIT_NOFILE' bash -c 'ulimit -n 16; exec "$1" doctor' - "$uroce"
expect 0 'sharing of addresses: can'"'"'t open an IPv4 UDP socket: Too many open files; raise RLIMIT_NOFILE (ulimit -n); an address that processes share takes 128 sockets' bash -c 'ulimit -n 100; exec "$1" doctor' - "$uroce"
expect 1 'raise RLIMIT_FSIZE' bash -c 'ulimit -f 100; UROCE_WIRE=shm exec "$1" doctor' - "$uroce"
if unshare -rn true 2>/dev/null; then
  expect 1 'ip link set lo up' unshare -rn "$uroce" doctor
  expect 0 'packets of up to 512 bytes' unshare -rn sh -c 'ip link set lo up mtu 600; exec "$1" doctor' - "$uroce"
  expect 1 'BAD   NIC: the MTU of lo is 319; the smallest that RoCE can do with is 320' \
    unshare -rn sh -c 'ip link set lo up mtu 319; exec "$1" doctor' - "$uroce"
  expect 0 'packets of up to 256 bytes' unshare -rn sh -c 'ip link set lo up mtu 320; exec "$1" doctor' - "$uroce"
  # Who has the port of all addresses of one IP version is not in the way of the other.
  expect 0 'they arrive' unshare -rn sh -c 'ip link set lo up; exec python3 -c "
import os, socket, subprocess, sys
taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
taken.bind((\"\", 4791))
sys.exit(subprocess.run([sys.argv[1], \"doctor\"], env={**os.environ, \"UROCE_ADDR\": \"::1\"}).returncode)" "$1"' - "$uroce"
  # A NIC on another interface needs lo for what it sends to itself.
  expect 1 'goes through lo, which is down: ip link set lo up' unshare -rn sh -c 'ip link add v0 type veth peer name v1
    ip addr add 10.9.0.1/24 dev v0; ip link set v0 up; ip link set v1 up; UROCE_ADDR=v0 exec "$1" doctor' - "$uroce"
  # A NIC on two interfaces shows which has what address.
  expect 0 $'lo\nlo\nv0' unshare -rn sh -c 'ip link set lo up; ip link add v0 type veth peer name v1; ip addr add 10.9.0.1/24 dev v0
    ip link set v0 up; UROCE_ADDR="127.9.9.1,10.9.0.1" exec "$1" run -- sh -c "cat /sys/class/infiniband/uroce0/ports/1/gid_attrs/ndevs/*"' - "$uroce"
  # Without /proc, and started by its name, it says the same.
  without_proc='mount -t tmpfs none /proc && PATH=$(dirname "$1"):$PATH exec uroce doctor'
  expect 0 "sharing of addresses: $(realpath "$(dirname "$uroce")")/uroce-broker" unshare -rm sh -c "$without_proc" - "$uroce"
  expect 0 "$("$uroce" doctor | grep 'IPv6:')" unshare -rm sh -c "$without_proc" - "$uroce"
  expect 0 "$("$uroce" doctor | grep 'send buffer:')" unshare -rm sh -c "$without_proc" - "$uroce"
  # Root of a user namespace may not see the rules of the host's network.
  expect 0 'firewall: could not look' unshare -r "$uroce" diagnose
fi
if unshare -rn nft list ruleset >/dev/null 2>&1; then
  blocked() { # blocked MATCH COMMAND...: where packets that match are dropped, even within the host
    unshare -rn sh -c 'ip link set lo up; echo "table inet f { chain i { type filter hook input priority 0; $1 drop; }; }" | nft -f - || exit 9
      shift; exec "$@"' - "$@"
  }
  expect 0 'firewall: there are rules that drop packets' blocked 'udp dport 4791' env PATH=/usr/bin "$uroce" diagnose
  expect 0 'firewall: there are rules that drop packets' blocked '' "$uroce" diagnose  # nft prints this behind tabs.
  expect 0 'firewall: no rule drops packets' unshare -rn sh -c \
    'ip link set lo up; nft "table inet f { counter dropped { }; chain i { type filter hook input priority 0; counter name dropped accept; }; }" && exec "$1" diagnose' - "$uroce"
  # Rules that nft does not list. Without iptables-legacy-save nobody sees them.
  legacy='ip link set lo up; iptables-legacy -A INPUT -p udp --dport 4791 -j DROP || exit 9'
  hidden='mount --bind /bin/false "$(realpath "$(command -v iptables-legacy-save)")"'
  if PATH=$PATH:/usr/sbin unshare -rmn sh -c "$legacy; $hidden" 2>/dev/null; then
    expect 0 'firewall: there are rules that drop packets' env PATH="$PATH:/usr/sbin" unshare -rmn sh -c "$legacy; exec \"\$1\" diagnose" - "$uroce"
    expect 0 'firewall: could not look, /proc/net/ip_tables_names has' env PATH="$PATH:/usr/sbin" unshare -rmn sh -c "$legacy; $hidden; exec \"\$1\" diagnose" - "$uroce"
  fi
  expect 1 'BAD   packets: from 127.0.0.1 to 127.0.0.1 none arrives' blocked 'udp dport 4791' "$uroce" doctor
  expect 1 'those of 64 bytes arrive, those of 4096 do not' blocked 'meta length > 2000' "$uroce" doctor
  expect 0 'packets: from 127.0.0.1 to 127.0.0.1 they arrive' blocked 'udp dport 4792' "$uroce" doctor
fi
expect 0 'they arrive' env UROCE_FAULTS=loss=100% "$uroce" doctor  # Those are not the firewall's.

expect 0 '127.9.9.2 3' "$uroce" run --addr 127.9.9.2 --devices 3 -- sh -c 'echo $UROCE_ADDR $UROCE_DEVICES'
expect 0 'libibverbs.so.1:before' env LD_PRELOAD=before "$uroce" run -- sh -c 'echo $LD_PRELOAD'
expect 0 'verify_asan_link_order=0:x=1' env ASAN_OPTIONS=x=1 "$uroce" run -- sh -c 'echo $ASAN_OPTIONS'
expect 0 'gso' "$uroce" run --offload gso -- sh -c 'echo $UROCE_OFFLOAD'
expect 0 'loss=1%' "$uroce" run --faults loss=1% -- sh -c 'echo $UROCE_FAULTS'
expect 2 'no such fault' "$uroce" run --faults los=1% -- true
# `uroce env`: the same for a shell, and for all of its commands; a second time, nothing changes.
expect 0 'uroce1' env UROCE_ADDR= sh -c 'eval "$("$1" env --devices 2)"; ibv_devices' - "$uroce"
expect 0 'same' sh -c 'eval "$("$1" env)"; first=$LD_PRELOAD; eval "$("$1" env)"; [ "$first" = "$LD_PRELOAD" ] && echo same' - "$uroce"
expect 0 "it's 7" sh -c 'eval "$("$1" env --pcap "/tmp/it'"'"'s 7")"; echo "$UROCE_PCAP"; rm "/tmp/it'"'"'s 7"' - "$uroce"
expect 0 $'\nUROCE_FAULTS=loss=1%' "$uroce" env --plain --faults loss=1%
expect 2 'no such fault' "$uroce" env --faults los=1%
# The loader has no way to quote a path in LD_PRELOAD.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for name in 'a b' 'a:b' 'a;b' 'a$b'; do
  mkdir -p "$folder/$name/bin" "$folder/$name/lib"
  cp "$uroce" "$folder/$name/bin/uroce"
  cp "$(dirname "$uroce")/../lib/libibverbs.so.1" "$folder/$name/lib/"
  expect 2 'in another folder' "$folder/$name/bin/uroce" run -- true
done
# A second line would be another variable.
expect 2 'UROCE_PCAP is more than one line' env --chdir="$folder" "$(realpath "$uroce")" env --plain --pcap $'a\nEVIL=1'
expect 2 'LD_PRELOAD is more than one line' env LD_PRELOAD=$'a\nEVIL=1' "$uroce" env --plain
# A capture that can't be written is refused before the command runs.
expect 2 "--pcap: can't" "$uroce" run --pcap "$folder" -- echo ran
ln -s loop "$folder/loop"  # As a folder that this user may not search.
expect 2 "--pcap: can't" "$uroce" run --pcap "$folder/loop/x.pcap" -- echo ran
# A signal would end it with 153.
expect 1 'File too large' "$uroce" run -- bash -c 'ulimit -f 0; cat /sys/class/infiniband/uroce0/node_guid'
expect 7 '' "$uroce" run -- sh -c 'exit 7'
expect 127 'No such file' "$uroce" run -- no-such-command
expect 126 'Permission denied' "$uroce" run -- /etc/passwd
expect 0 'auto|io_uring|socket' "$uroce" run --help
expect 2 "uroce run: the argument 'command' is missing. \`uroce run --help\` lists all options." "$uroce" run
expect 2 'uroce: which command? There are run, ' "$uroce"
# A stderr that takes nothing changes no status.
for lost in '2>/dev/full' '2>&-' '>&- 2>&-'; do
  expect 2 '' sh -c "\"\$1\" foo $lost" - "$uroce"
  expect 127 '' sh -c "\"\$1\" run -- /nonexistent $lost" - "$uroce"
  expect 2 '' sh -c "\"\$1\" explain /nonexistent $lost" - "$uroce"
done
expect 1 'Bad file descriptor' sh -c '"$1" info <&- >&-' - "$uroce"
expect 1 "can't write to stdout" timeout 60 sh -c '"$1" top --interval 0.01 >/dev/full' - "$uroce"
expect 2 "uroce: unknown option --bogus. A command comes first: run, " "$uroce" --bogus
expect 2 "uroce record: pid: 'abc' is not a number" "$uroce" record abc
expect 2 'uroce diagnose: --sys: there is no directory '"'/no/such'" "$uroce" diagnose --sys /no/such
expect 2 "no command 'no-such-command'; the commands are run" "$uroce" no-such-command
expect 2 'uroce run: unknown option --bogus. `uroce run --help` lists all options.' "$uroce" run --bogus -- true
expect 2 'uroce explain: unknown option --bogus.' "$uroce" explain --bogus
expect 2 "uroce devices: unexpected argument 'all'." "$uroce" devices all
expect 2 'uroce doctor: --peer and --listen exclude each other' "$uroce" doctor --listen --peer localhost
# A variable of a script that is not set asks for nothing else.
expect 2 'uroce doctor: --peer: the value is empty.' "$uroce" doctor --peer ''
for option in --qp --peer --html --perfetto; do
  expect 2 "uroce explain: $option: the value is empty." "$uroce" explain $option '' "$(dirname "$0")/../../../pcaps/read.pcap"
done
expect 0 'uroce 0.' "$uroce" --version
for words in devices --help 'explain pcaps/read.pcap' 'explain --json pcaps/read.pcap'; do
  expect 1 "can't write to stdout" sh -c 'cd "$3" && "$1" $2 >/dev/full' - "$(realpath "$uroce")" "$words" "$(dirname "$0")/../../.."
done

# Every setting is in the help, and a wrong one is refused before the command runs.
for name in ADDR BACKEND BROKER DEVICES ENGINE FAULTS LID OFFLOAD PCAP RECORD VENDOR WIRE; do
  expect 0 "UROCE_$name" "$uroce" run --help
done
expect 2 'UROCE_DEVICES must be a number' "$uroce" run --devices none -- true
expect 2 'UROCE_RECORD must be a directory' "$uroce" run --record /etc/passwd -- true
# What is to be done until the next login is the same.
expect 0 "Now: eval \"\$(uroce env --addr '127.9.9.2' --devices '2')\"" env HOME="$folder" "$uroce" enable --addr 127.9.9.2 --devices 2
expect 0 'removed' env HOME="$folder" "$uroce" disable
expect 0 "$folder/made" sh -c 'cd "$2" && "$1" run --record made -- printenv UROCE_RECORD' - "$(realpath "$uroce")" "$folder"
expect 2 'UROCE_ENGINE must be' env UROCE_ENGINE=none "$uroce" run -- true

expect 0 sysfs "$uroce" run -- stat -f -c %T /sys/class/infiniband/uroce0/node_guid
# The kernel is also who is asked on a NETLINK_RDMA socket without a destination.
expect 0 "[b'uroce0'] [b'uroce0'] [b'uroce0'] refused" "$uroce" run -- python3 -c '
import re, socket, struct
request = struct.pack("=IHHII", 16, (5 << 10) + 1, 0x301, 1, 0)  # All devices.
def answer(ask):
  with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20) as asked:
    try:
      ask(asked)
    except ConnectionRefusedError:
      return "refused"
    return re.findall(b"uroce[0-9]+", asked.recv(65536))
def send_connected(asked):  # It would not hear our answer.
  asked.connect((0, 0))
  asked.send(request)
print(answer(lambda s: s.sendto(request, (0, 0))), answer(lambda s: s.send(request)), answer(lambda s: s.sendmsg([request])),
      answer(send_connected))'

# A verb that fails says why, once, if it is asked to.
asks_for_port_2='
import ctypes
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
context = ctypes.c_void_p(verbs.ibv_open_device(ctypes.c_void_p(verbs.ibv_get_device_list(None)[0])))
print([verbs.ibv_query_port(context, 2, bytes(256)) for i in range(2)])'
said=$("$uroce" run --addr 127.9.9.1 --refusals on -- python3 -c "$asks_for_port_2" 2>&1)
[ "$said" = $'uroce: Invalid argument: port 2: the NIC has port 1 only\n[22, 22]' ] || fail "refusals: $said"
said=$("$uroce" run --addr 127.9.9.1 -- python3 -c "$asks_for_port_2" 2>&1)
[ "$said" = '[22, 22]' ] || fail "no refusals: $said"
expect 1 "UROCE_REFUSALS must be on or off" env UROCE_REFUSALS=maybe "$uroce" devices

# A channel of RDMA CM takes the ioctls that are for all descriptors, and no others.
expect 0 'False False True, 25' "$uroce" run -- python3 -c '
import fcntl, os, termios
channel = os.open("/dev/infiniband/rdma_cm", os.O_RDWR)
os.set_blocking(channel, False)  # FIONBIO
fcntl.ioctl(channel, termios.FIONCLEX)
kept = os.get_inheritable(channel)
fcntl.ioctl(channel, termios.FIOCLEX)
try:
  fcntl.ioctl(channel, termios.FIONREAD, bytes(4))
except OSError as error:
  print(f"{os.get_blocking(channel)} {os.get_inheritable(channel)} {kept}, {error.errno}")'

# The files of a port whose link is down say so, as the verbs do. And nobody takes commands there.
if unshare -rn true 2>/dev/null; then
  expect 1 'no process takes commands' unshare -rn "$uroce" ctl all list
  expect 1 'it is in another network namespace: give the command there, with nsenter' unshare -r bash -c '
    coproc program { exec unshare -n "$1" run --control on -- python3 -c "import ctypes
ctypes.CDLL(\"libibverbs.so.1\").ibv_get_device_list(None); print(1, flush=True); input()"; }
    read -r <&"${program[0]}"
    "$1" ctl "$program_PID" || exit 1' - "$uroce"
  lists='coproc program { exec "${@:2}" "$1" run --control on -- python3 -c "import ctypes
ctypes.CDLL(\"libibverbs.so.1\").ibv_get_device_list(None); print(1, flush=True); input()"; }
    read -r <&"${program[0]}"
    "$1" ctl || exit 1'
  # Of a container that has our network; and where /proc shows nothing but processes.
  expect 0 ' python3' unshare -rn bash -c "$lists" - "$uroce" unshare -pf --mount-proc
  if unshare -rmpf mount -t proc -o subset=pid none /proc 2>/dev/null; then
    expect 0 ' python3' unshare -rnmpf bash -c "mount -t proc -o subset=pid none /proc; $lists" - "$uroce" env
  fi
  expect 0 '1: DOWN' unshare -rn sh -c 'ip link set lo up; ip link set lo down; exec "$1" run -- cat /sys/class/infiniband/uroce0/ports/1/state' - "$uroce"
fi
if unshare -rp true 2>/dev/null; then
  expect 0 'after unshare(CLONE_NEWPID) a process may make none' env UROCE_ADDR=127.9.9.1 unshare -r "$uroce" run -- python3 -c '
import ctypes
ctypes.CDLL(None).unshare(0x20000000)
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device(ctypes.c_void_p(verbs.ibv_get_device_list(None)[0]))'
fi
# A chroot without /proc has the library all the same, and shared memory.
if unshare -rmn true 2>/dev/null; then
  expect 0 'uroce0' unshare -rm sh -c 'mount -t tmpfs none /proc; exec "$1" run -- ibv_devices' - "$uroce"
  expect 0 'through shared memory, to 127.9.9.1' unshare -rmn sh -c '
    mount -t tmpfs none /proc
    ip link set lo up
    UROCE_ADDR=127.9.9.1 "$1/rdma_server" --wire shm &
    server=$!
    until UROCE_ADDR=127.9.9.2 "$1/rdma_client" 127.0.0.1 --wire shm; do kill -0 $server || exit 1; done
    wait $server' - "${uroce%/*}"
  expect 2 'mount /proc, or give the address to one process' unshare -rmn sh -c '
    mount -t tmpfs none /proc
    ip link set lo up
    UROCE_ADDR=127.9.9.1 exec "$1/rdma_server" --cm' - "${uroce%/*}"
fi
# A capture that can't go on is said once to who runs a program that knows nothing of captures. The program goes on.
if unshare -rn true 2>/dev/null; then
  expect 0 "cut.pcap: File too large; packets from here on are not captured" unshare -rn bash -c '
    ip link set lo up
    exec "$1" run --pcap "$2/cut.pcap" -- bash -c "
      ulimit -f 64
      ibv_rc_pingpong -g 0 & server=\$!
      until ibv_rc_pingpong -g 0 localhost; do kill -0 \$server || exit 1; done
      wait \$server"' - "$uroce" "$folder"
fi
# `uroce doctor` judges each setting: its value, and whether this machine can give it.
expect 0 'UROCE_DEVICES=2' env UROCE_DEVICES=2 "$uroce" doctor
expect 1 "'garbage' is neither" env UROCE_ADDR=garbage "$uroce" doctor
expect 1 'no interface of this machine has the address 192.0.2.1' env UROCE_ADDR=127.9.9.1,192.0.2.1 "$uroce" doctor
expect 1 '127.9.9.3 is in use by python3' python3 -c '
import os, socket, subprocess, sys
taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
taken.bind(("127.9.9.3", 4791))
doctor = subprocess.run([sys.argv[1], "doctor"], env={**os.environ, "UROCE_ADDR": "127.9.9.3"}, capture_output=True, text=True)
print(doctor.stdout)
assert doctor.stdout.count("127.9.9.3") == 1, "said twice"
sys.exit(doctor.returncode)' "$uroce"
expect 1 'UROCE_DEVICES must be a number' env UROCE_DEVICES=two "$uroce" doctor
expect 1 'no such fault' env UROCE_FAULTS=los=1% "$uroce" doctor
expect 1 'UROCE_BROKER must be' env UROCE_BROKER=on "$uroce" doctor
expect 1 'UROCE_ENGINE must be' env UROCE_ENGINE=uring "$uroce" doctor
expect 1 'UROCE_OFFLOAD' env UROCE_ENGINE=io_uring UROCE_OFFLOAD=gso "$uroce" doctor
expect 1 'UROCE_LID must be' env UROCE_LID=1 "$uroce" doctor
expect 1 'UROCE_VENDOR must be' env UROCE_VENDOR=1 "$uroce" doctor
expect 1 'UROCE_BACKEND must be' env UROCE_BACKEND=hardware "$uroce" doctor
expect 1 "can't be written" env UROCE_PCAP=/no/such/folder/x.pcap "$uroce" doctor
expect 1 "can't be written" env UROCE_PCAP=/ "$uroce" doctor
echo kept >"$folder/x.pcap"
expect 0 'UROCE_PCAP' env UROCE_PCAP="$folder/x.pcap" "$uroce" doctor
[ "$(cat "$folder/x.pcap")" = kept ] || fail "uroce doctor wrote over a capture"
expect 1 "UROCE_RECORD: can't write to /no/such/folder" env UROCE_RECORD=/no/such/folder "$uroce" doctor
expect 0 'UROCE_FAULT is set, and no setting has that name' env UROCE_FAULT=x "$uroce" doctor
expect 0 'is UROCE_FAULTS meant?' env UROCE_FAULT=x "$uroce" doctor
if unshare -rn true 2>/dev/null; then
  expect 1 'ip link set lo up' unshare -rn sh -c 'ip link set lo up; ip link set lo down; ip addr; exec "$1" doctor' - "$uroce"
fi
# Who misspells one hears of it, once. Variables that look like none may be another program's.
for pair in WRIE=WIRE FAULT=FAULTS ADDRESS=ADDR SEEED=SEED DEVICE=DEVICES; do
  said=$(env "UROCE_${pair%=*}=x" UROCE_TARBALL=x UROCE_CI_RUN=env UROCE_LAB=x "$uroce" run -- true 2>&1)
  [ "$said" = "uroce: UROCE_${pair%=*} has no effect: no setting has that name; is UROCE_${pair#*=} meant?" ] || fail "$pair: '$said'"
done
expect 0 'is UROCE_WIRE meant?' env UROCE_WRIE=shm "$uroce" env
expect 2 'rdma_client: UROCE_WRIE has no effect' env UROCE_WRIE=shm "$(dirname "$uroce")/rdma_client" no.such.host.invalid
# Stdout is the program's.
for value in - '>>-'; do
  expect 2 'UROCE_PCAP: - is no file' "$uroce" run --pcap "$value" -- true
  expect 1 'UROCE_PCAP: - is no file' sh -c 'cd "$2" && UROCE_PCAP=$3 exec "$1" info' - "$(realpath "$uroce")" "$folder" "$value"
done
[ ! -e "$folder/-" ] || fail "a capture went to a file named -"
echo "all as it should be"
