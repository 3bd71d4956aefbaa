#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/examples/container by podman: builds the image on this machine's Debian, then runs perftest between two containers, as an
# ordinary user without capabilities, on a read-only root, under the default seccomp profile.
#   tests/packaging/container.sh                 builds the packages in the image, as users do: many minutes; all scenarios
#   tests/packaging/container.sh quick           takes those in build/packages
#   tests/packaging/container.sh quick compose   one scenario: finds, namespaces, compose, pod or pods
# Needs root. The base system is that of tests/packaging/run.sh, which needs build/packages (tools/package.sh).
# shellcheck disable=SC2317  # Scenarios are called by their names.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/lib/setup.sh
. tests/packaging/system.sh

quick=
if [ "${1:-}" = quick ]; then quick=yes; shift; fi
scenarios=("$@")
[ $# -gt 0 ] || scenarios=(finds namespaces compose pod pods)
[ "$(id -u)" -eq 0 ] || die "needs root: it makes networks"
[ -e build/packages/SHA256SUMS ] || die "no packages: tools/package.sh first"
# shellcheck disable=SC2086
install_packages $PACKAGES_SYSTEMS $PACKAGES_CONTAINER
prepare_system bookworm

examples=docs/examples/container
here=uroce-$$-server there=uroce-$$-client bridges=uroce-$$-bridges
settings=$(mktemp)
containers=() undo=()
cleanup() {
  local command
  for command in ${undo[@]+"${undo[@]}"}; do $command >/dev/null 2>&1 || true; done
  [ ${#containers[@]} -eq 0 ] || podman rm -f -t 0 "${containers[@]}" >/dev/null 2>&1 || true
  for namespace in "$here" "$there" "$bridges"; do ip netns del "$namespace" 2>/dev/null || true; done
  rm -f "$settings"
}
trap cleanup EXIT
# runc may not raise limits where this machine has lower ones than podman wants.
printf '%s\n' '[containers]' 'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]' '[engine]' 'runtime = "runc"' >"$settings"
export CONTAINERS_CONF=$settings
ip netns add "$here"
ip netns add "$there"
ip netns add "$bridges"
ip -n "$here" link add eth0 type veth peer name eth0 netns "$there"
ip -n "$here" addr add 10.88.7.1/24 dev eth0
ip -n "$there" addr add 10.88.7.2/24 dev eth0
for namespace in "$here" "$there" "$bridges"; do ip -n "$namespace" link set lo up; done
for namespace in "$here" "$there"; do ip -n "$namespace" link set eth0 up; done
# within COMMAND...: where podman may make bridges, without a trace in this machine's own network.
within() { nsenter --net="/run/netns/$bridges" "$@"; }

podman image exists docker.io/library/debian:12-slim ||
  tar -C "$SYSTEMS/bookworm" -c . | podman import -q -c 'CMD ["bash"]' \
    -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' - docker.io/library/debian:12-slim >/dev/null
say "the image"
# As debian:12-slim it is the mirror of this machine that apt uses there.
image() { podman build -q --isolation chroot --network host -t uroce "$@" >/dev/null; }
if [ -n "$quick" ]; then
  sed '1,/^RUN .*package.sh/d; s,--from=build /src/build/packages/,,' $examples/Dockerfile | image -f - build/packages
else
  image -f $examples/Dockerfile .
fi

# contain NAME NAMESPACE OPTION... uroce COMMAND...: a container with all restrictions of compose.yaml and pod.yaml.
contain() {
  local name=$1 namespace=$2
  shift 2
  podman run --name "$name" --network "ns:/run/netns/$namespace" --read-only --read-only-tmpfs=false --cap-drop all \
    --security-opt no-new-privileges "$@"
}

# met SERVER CLIENT: both containers ended well, and were as restricted as the examples say.
met() {
  local name status
  for name in "$@"; do
    status=$(timeout 60 podman wait "$name") || { podman logs "$@"; die "$name does not end"; }
    [ "$status" = 0 ] || { podman logs "$name"; die "$name ended with status $status"; }
    status=$(podman inspect "$name" --format '{{.HostConfig.ReadonlyRootfs}} {{.EffectiveCaps}} {{.HostConfig.SecurityOpt}} {{.Config.User}}')
    [[ $status =~ ^true\ \[\]\ \[no-new-privileges(:true)?\]\ 1000(:1000)?$ ]] || die "$name is not restricted: $status"
  done
  podman logs "$2" 2>&1 | grep -A 1 '#bytes' | tail -n 2 | grep -B 1 '65536 *1000' || { podman logs "$2"; die "no result"; }
}

scenario_finds() {
  containers+=("$here-show" "$here-info")
  contain "$here-show" "$here" --entrypoint uroce uroce doctor | grep -A 1 "io_uring: io_uring_setup"
  contain "$here-info" "$here" uroce ibv_devinfo | grep uroce0
}

# meet NAMESPACE ADDRESS OPTION...: perftest from a container there to one in the first namespace.
meet() {
  local namespace=$1 address=$2
  shift 2
  containers+=("$namespace-s" "$namespace-c")
  contain "$namespace-s" "$here" -d "$@" uroce ib_write_bw -x 1 -F -n 1000 >/dev/null
  contain "$namespace-c" "$namespace" -d "$@" uroce sh -c "until ib_write_bw -x 1 -F -n 1000 $address; do sleep 0.2; done" >/dev/null
  met "$namespace-s" "$namespace-c"
}
scenario_namespaces() {
  echo "of one network"
  meet "$here" 127.0.0.1
  echo "of two, with a pair of interfaces between them"
  meet "$there" 10.88.7.1 -e UROCE_ADDR=eth0
}

# By podman-compose: networks and names are podman's own.
scenario_compose() {
  local compose=(podman-compose -p "uroce-$$" -f "$examples/compose.yaml") log
  log=$(mktemp)
  undo+=("within ${compose[*]} down" "within podman network rm uroce-$$_default" "rm -f $log")
  within timeout 120 "${compose[@]}" up --exit-code-from client >"$log" 2>&1 || { cat "$log"; die "podman-compose up"; }
  met "uroce-$$_server_1" "uroce-$$_client_1"
}

# play FILE SERVER CLIENT: what Kubernetes would create from it, by podman play kube.
play() {
  local log
  log=$(mktemp)
  undo+=("within podman play kube --down $examples/$1" "rm -f $log")
  within timeout 60 podman play kube "$examples/$1" >"$log" 2>&1 || { cat "$log"; die "podman play kube $1"; }
  met "$2" "$3"
  within podman play kube --down "$examples/$1" >/dev/null
}
scenario_pod() { play pod.yaml rdma-server rdma-client; }
scenario_pods() { play pods.yaml rdma-server-perftest rdma-client-perftest; }

for scenario in "${scenarios[@]}"; do
  [ "$(type -t "scenario_$scenario")" = function ] || die "there is no scenario $scenario"
  say "$scenario"
  "scenario_$scenario"
done
say "all passed"
