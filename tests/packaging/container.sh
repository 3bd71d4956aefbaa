#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/examples/container by podman: builds the image on this machine's Debian, then runs perftest in two containers of one
# network, and of two, as an ordinary user without capabilities, on a read-only root, under the default seccomp profile.
#   tests/packaging/container.sh          builds the packages in the image, as users do: many minutes
#   tests/packaging/container.sh quick    takes those in build/packages
# Needs root. The base system is that of tests/packaging/run.sh, which needs build/packages (tools/package.sh).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/lib/setup.sh
. tests/packaging/system.sh

[ "$(id -u)" -eq 0 ] || die "needs root: it makes networks"
[ -e build/packages/SHA256SUMS ] || die "no packages: tools/package.sh first"
# shellcheck disable=SC2086
install_packages $PACKAGES_SYSTEMS $PACKAGES_CONTAINER
prepare_system bookworm
podman image exists docker.io/library/debian:12-slim ||
  tar -C "$SYSTEMS/bookworm" -c . | podman import -q - docker.io/library/debian:12-slim >/dev/null
say "the image"
# As debian:12-slim it is the mirror of this machine that apt uses there.
image() { podman build -q --isolation chroot --network host -t uroce "$@" >/dev/null; }
if [ "${1:-}" = quick ]; then
  sed '1,/^RUN .*package.sh/d; s,--from=build /src/build/packages/,,' docs/examples/container/Dockerfile | image -f - build/packages
else
  image -f docs/examples/container/Dockerfile .
fi

here=uroce-$$-server there=uroce-$$-client
containers=()
# shellcheck disable=SC2317
cleanup() {
  [ ${#containers[@]} -eq 0 ] || podman rm -f -t 0 "${containers[@]}" >/dev/null 2>&1 || true
  for namespace in "$here" "$there"; do ip netns del "$namespace" 2>/dev/null || true; done
}
trap cleanup EXIT
ip netns add "$here"
ip netns add "$there"
ip -n "$here" link add eth0 type veth peer name eth0 netns "$there"
ip -n "$here" addr add 10.88.7.1/24 dev eth0
ip -n "$there" addr add 10.88.7.2/24 dev eth0
for namespace in "$here" "$there"; do
  ip -n "$namespace" link set lo up
  ip -n "$namespace" link set eth0 up
done

# contain NAME NAMESPACE OPTION... uroce COMMAND...: a container with all restrictions of compose.yaml and pod.yaml.
contain() {
  local name=$1 namespace=$2
  shift 2
  podman --runtime runc run --name "$name" --network "ns:/run/netns/$namespace" --ulimit nofile=1024:1024 \
    --ulimit nproc=1024:1024 --read-only --read-only-tmpfs=false --cap-drop all --security-opt no-new-privileges "$@"
}

say "what it finds"
containers+=("$here-show" "$here-info")
contain "$here-show" "$here" --entrypoint uroce uroce doctor | grep -A 1 "io_uring: io_uring_setup"
contain "$here-info" "$here" uroce ibv_devinfo | grep uroce0

# meet NAMESPACE ADDRESS OPTION...: perftest from a container there to one in the first namespace.
meet() {
  local namespace=$1 address=$2 status
  shift 2
  containers+=("$namespace-s" "$namespace-c")
  contain "$namespace-s" "$here" -d "$@" uroce ib_write_bw -x 1 -F -n 1000 >/dev/null
  contain "$namespace-c" "$namespace" "$@" uroce sh -c "until ib_write_bw -x 1 -F -n 1000 $address; do sleep 0.2; done" |
    tail -n 3
  status=$(timeout 20 podman wait "$namespace-s")
  [ "$status" = 0 ] || { podman logs "$namespace-s"; die "the server ended with status $status"; }
}
say "two containers of a pod"
meet "$here" 127.0.0.1
say "two containers with a network between them"
meet "$there" 10.88.7.1 -e UROCE_ADDR=eth0
say "all passed"
