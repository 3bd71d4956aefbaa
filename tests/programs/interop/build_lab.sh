#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the guest: kernel, root file system, initramfs. Called by `lab build`. Each step is skipped when its result is
# there; remove $UROCE_LAB/build to start over. Needs root (debootstrap) and an apt that reaches a Debian mirror.
set -euo pipefail
# shellcheck source=tests/programs/interop/env.sh
. "$(dirname "$0")/env.sh"

ROOT=$LAB/build/root
UNPACKED=$LAB/build/kernel

# Debian's newest 6.12 kernel for this suite (its rdma_rxe is newer and better than 6.1's), else whatever is default.
kernel_package() {
  local newest
  newest=$(apt-cache search --names-only '^linux-image-6\.12\.[0-9]+\+deb12-amd64$' | cut -d' ' -f1 | sort -V | tail -n 1)
  [ -n "$newest" ] || newest=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: //p' | head -n 1)
  [ -n "$newest" ] || die "apt knows no kernel; run apt-get update"
  echo "$newest"
}

fetch() { # fetch PACKAGE DIRECTORY: unpacks a package without installing it
  (cd "$LAB/download" && rm -f "$1"_*.deb && apt-get download -qq -o APT::Sandbox::User=root "$1" >/dev/null &&
    dpkg-deb -x "$1"_*.deb "$2")
}

build_kernel() {
  rm -rf "$UNPACKED"
  mkdir -p "$UNPACKED"
  fetch "$(kernel_package)" "$UNPACKED"
  cp "$UNPACKED"/boot/vmlinuz-* "$KERNEL"
}

build_root() {
  rm -rf "$ROOT"
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Codename: $SUITE" | head -n 1)
  debootstrap --variant=minbase --include="$GUEST_PACKAGES" $SUITE "$ROOT" ${mirror:+"$mirror"} >"$LAB/build/debootstrap.log" 2>&1 ||
    die "debootstrap failed, see $LAB/build/debootstrap.log"
}

# Only the modules that the guest needs; the rest is 80 MB of drivers for hardware that it has not got.
build_image() {
  local modules version wanted
  modules=$(echo "$UNPACKED"/lib/modules/*)
  version=$(basename "$modules")
  rm -rf "$ROOT/usr/lib/modules"
  mkdir -p "$ROOT/usr/lib/modules/$version"
  wanted=(crypto lib net fs/9p fs/netfs fs/fscache fs/configfs arch drivers/infiniband/core drivers/infiniband/sw drivers/virtio
    drivers/infiniband/ulp/iser drivers/nvme)
  for path in "${wanted[@]}" drivers/net/{virtio_net,net_failover}.ko net/core/failover.ko drivers/block/loop.ko \
    drivers/scsi/{scsi_common,scsi_mod,sd_mod,scsi_transport_iscsi,libiscsi}.ko; do
    (cd "$modules" && find kernel/"$path"* -type f -exec cp --parents {} "$ROOT/usr/lib/modules/$version/" \; 2>/dev/null) || true
  done
  cp "$modules"/modules.{builtin,order,builtin.modinfo} "$ROOT/usr/lib/modules/$version/"
  depmod -b "$ROOT/usr" "$version" 2>/dev/null || chroot "$ROOT" depmod "$version"
  install -m755 "$HERE/guest/init" "$ROOT/sbin/lab-init"
  rm -f "$ROOT"/var/cache/apt/archives/*.deb
  rm -f "$ROOT_IMAGE"
  truncate -s 800M "$ROOT_IMAGE"
  mke2fs -q -t ext4 -O ^has_journal,^metadata_csum -d "$ROOT" "$ROOT_IMAGE"
}

build_initrd() {
  local tree=$LAB/build/initrd module file
  rm -rf "$tree"
  mkdir -p "$tree"/{bin,modules,proc,sys,dev,read_only,scratch,root}
  fetch busybox-static "$LAB/download/busybox"
  cp "$LAB/download/busybox/bin/busybox" "$tree/bin/"
  install -m755 "$HERE/guest/initrd-init" "$tree/init"
  for module in crc16 crc32c_generic libcrc32c mbcache jbd2 ext4 virtio_blk overlay; do # some are built into some kernels
    file=$(find "$UNPACKED"/lib/modules -name "$module.ko*" | head -n 1)
    case $file in
      *.xz) xz -dc "$file" >"$tree/modules/$module.ko" ;;
      *.zst) zstd -qdc "$file" >"$tree/modules/$module.ko" ;;
      *.ko) cp "$file" "$tree/modules/" ;;
    esac
  done
  (cd "$tree" && find . | ./bin/busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$INITRD"
}

mkdir -p "$LAB"/{download,build,run,share}
for tool in debootstrap mke2fs qemu-system-x86_64 xz zstd; do
  command -v $tool >/dev/null || die "there is no $tool; install: $PACKAGES_LAB"
done
[ -f "$KERNEL" ] || build_kernel
[ -x "$ROOT/usr/bin/ibv_devinfo" ] || build_root
[ -f "$ROOT_IMAGE" ] || build_image
[ -f "$INITRD" ] || build_initrd
echo "built: $(basename "$UNPACKED"/lib/modules/*), $(du -ch "$KERNEL" "$INITRD" "$ROOT_IMAGE" | tail -n 1 | cut -f1) in $LAB/build"
