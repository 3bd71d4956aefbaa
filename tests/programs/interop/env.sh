# SPDX-License-Identifier: Apache-2.0
# Sourced by the lab's scripts: where things are. Everything that is built or written at run time lies under $UROCE_LAB.
# shellcheck shell=bash disable=SC2034

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LAB=${UROCE_LAB:-${XDG_CACHE_HOME:-$HOME/.cache}/uroce-lab}
NAMESPACE=${UROCE_LAB_NAMESPACE:-uroce-lab}

# The network: a tap device in a namespace of its own. Nothing leaves the machine.
HOST_IPV4=10.77.0.1 HOST_IPV6=fd77::1
GUEST_IPV4=10.77.0.2 GUEST_IPV6=fd77::2
MTU=9000  # enough for a path MTU of 4096 and all headers

# The guest: Debian's kernel and a small Debian user land. Without KVM, QEMU translates; that needs one core.
ACCEL=${UROCE_LAB_ACCEL:-tcg,thread=multi}
CPU=${UROCE_LAB_CPU:-max,la57=off}
PROCESSORS=${UROCE_LAB_PROCESSORS:-1}
APPEND=${UROCE_LAB_APPEND:-}  # kernel arguments
MEMORY_MIB=1024
SUITE=bookworm
GUEST_PACKAGES=rdma-core,ibverbs-providers,ibverbs-utils,iproute2,kmod,open-iscsi,python3
KERNEL=$LAB/build/vmlinuz INITRD=$LAB/build/initrd.gz ROOT_IMAGE=$LAB/build/root.ext4

PACKAGES_LAB="qemu-system-x86 debootstrap e2fsprogs iproute2 kmod xz-utils zstd python3"

die() { printf 'lab: %s\n' "$*" >&2; exit 1; }
