#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests on another kernel: a kernel of Debian in QEMU, on this machine's file system, which it only reads; what it
# writes is thrown away. Needs build/release, with its tests.
#   tests/packaging/kernel.sh                                        Linux 6.1, that of Debian 12: engine, broker, shm, view, e2e
#   tests/packaging/kernel.sh linux-image-6.12-rt-amd64 -R '^e2e'    another one, and other arguments of ctest
# Exit status: that of ctest. Without KVM (with it: not tried), QEMU translates, and tests take ten times as long.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/lib/setup.sh
export PATH=$PATH:/usr/sbin:/sbin
package=linux-image-amd64
case ${1:-} in linux-image-*) package=$1 && shift ;; esac
[ $# -gt 0 ] || set -- -L '^(engine|broker|shm|view|e2e)$' -j 2
[ -e build/release/CTestTestfile.cmake ] || die "nothing to test; first: tools/check.sh, or cmake --preset release && ninja -C build/release"
install_packages qemu-system-x86 busybox-static kmod xz-utils

# A name like linux-image-amd64 stands for the newest package of its kind.
real=$(apt-cache depends --no-suggests --no-recommends "$package" | sed -n 's/^ *Depends: \(linux-image-[0-9.]*[^ ]*\)$/\1/p' | head -n 1)
package=${real:-$package}
home=$ROOT/build/systems/$package
modules=(virtio_pci 9pnet_virtio 9p overlay)                                                   # to get at the file system
more="veth bridge dummy tun inet_diag udp_diag tcp_diag unix_diag sch_netem nf_tables"    # for the tests

unpack() {
  mkdir -p "$home/kernel"
  (cd "$home" && apt-get download -qq -o APT::Sandbox::User="$(id -un)" "$package" && dpkg-deb -x ./*.deb kernel && rm ./*.deb)
}

# The first program of the kernel, and what it loads before it has a file system.
make_initrd() {
  local tree=$home/initrd version file
  version=$(basename "$home"/kernel/lib/modules/*)
  depmod -b "$home/kernel" "$version"
  rm -rf "$tree"
  mkdir -p "$tree"/{bin,proc,sys,dev,below,above,root,modules}
  cp "$(command -v busybox)" "$tree/bin/"
  for module in "${modules[@]}"; do modprobe -d "$home/kernel" -S "$version" --show-depends "$module"; done |
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }' |
    while read -r file; do
      case $file in
        *.xz) xz -dc "$file" >"$tree/modules/$(basename "$file" .xz)" ;;
        *) cp "$file" "$tree/modules/" ;;
      esac
      basename "$file" .xz >>"$tree/order"
    done
  cat >"$tree/init" <<'EOF'
#!/bin/busybox sh
mount() { /bin/busybox mount "$@"; }
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
second=$(/bin/busybox sed -n 's/.*uroce.second=\([^ ]*\).*/\1/p' /proc/cmdline)
for module in $(/bin/busybox cat /order); do /bin/busybox insmod "/modules/$module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /below
mount -t tmpfs -o size=3g tmpfs /above
/bin/busybox mkdir /above/files /above/work
mount -t overlay -o lowerdir=/below,upperdir=/above/files,workdir=/above/work overlay /root
for folder in proc sys dev; do mount --move /$folder /root/$folder; done
mount -t tmpfs tmpfs /root/run
/bin/busybox mkdir -p /root/dev/shm /root/dev/pts
mount -t tmpfs -o mode=1777 tmpfs /root/dev/shm
mount -t devpts devpts /root/dev/pts
exec /bin/busybox switch_root /root /bin/bash "$second"
EOF
  chmod 755 "$tree/init"
  (cd "$tree" && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >"$home/initrd.gz"
}
[ -d "$home/kernel/lib/modules" ] || unpack
make_initrd

# The second program runs the tests. Its output is the second serial line.
cat >"$home/second" <<EOF
exec >/dev/ttyS1 2>&1 </dev/null
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
stty -F /dev/ttyS1 raw
mkdir -p /lib/modules
ln -sfn $home/kernel/lib/modules/\$(uname -r) /lib/modules/
for module in $more; do modprobe -q \$module; done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
# What counts processor time, as QEMU translates; and a bound that Linux 6.1 does not keep.
export GTEST_FILTER='-*UsesNoCpu*:*ReceivesAboutTheBudget*'
cd $ROOT
echo "== Linux \$(uname -r)"
ctest --test-dir build/release --output-on-failure$(printf ' %q' "$@")
echo "exit status \$?"
sync
echo o >/proc/sysrq-trigger
sleep 60
EOF
accelerator=tcg,thread=multi
[ ! -w /dev/kvm ] || accelerator=kvm
qemu-system-x86_64 -accel "$accelerator" -cpu max -smp "$(nproc)" -m "${UROCE_TEST_GUEST_MIB:-6144}" -display none -no-reboot -monitor none \
  -serial "file:$home/console" -serial stdio -kernel "$home"/kernel/boot/vmlinuz-* -initrd "$home/initrd.gz" \
  -append "console=ttyS0 quiet panic=-1 mitigations=off uroce.second=$home/second" \
  -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap -device virtio-9p-pci,fsdev=host,mount_tag=host </dev/null |
  tee "$home/output"
status=$(sed -n 's/^exit status \([0-9]*\).*/\1/p' "$home/output" | tail -n 1)
[ -n "$status" ] || die "the guest died: $(tail -n 5 "$home/console")"
exit "$status"
