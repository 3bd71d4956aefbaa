#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sysroot.sh FOLDER: makes a root for `gcc --sysroot`, with the libc of Debian 11 (glibc 2.31) and, for everything else,
# the packages of Debian 12. What is linked there runs with any glibc from 2.31 on. Needs apt of Debian 12,
# flex and bison, and no root.
set -euo pipefail
. "$(dirname "$0")/../lib/setup.sh"
. "$(dirname "$0")/mirror.sh"
[ $# -eq 1 ] || die "usage: sysroot.sh FOLDER"
FLOOR=bullseye
FLOOR_PACKAGES="libc6 libc6-dev libcrypt-dev libcrypt1 libgcc-s1"
OURS=bookworm
OUR_PACKAGES="linux-libc-dev libstdc++-12-dev liburing-dev libpcap0.8-dev libpcap-dev libisal-dev libisal2 libibverbs-dev
  librdmacm-dev libcli11-dev libfmt-dev libfmt9 nlohmann-json3-dev"

root=$1
[ -e "$root/complete" ] && exit
mirror=$(debian_mirror)
[ -n "$mirror" ] || die "apt has no mirror of Debian"
rm -rf "$root"
mkdir -p "$root/get"
root=$(cd "$root" && pwd)
get=$root/get

# apt_of RELEASE ARGUMENT...: apt-get with the packages of RELEASE, and nothing of this machine's own.
apt_of() {
  local release=$1 apt=$get/$1
  shift
  if [ ! -d "$apt" ]; then
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    printf '%s [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' \
      deb "$mirror" "$release" deb-src "$mirror" "$release" >"$apt/sources.list"
    apt_of "$release" update
  fi
  (cd "$get" && apt-get -qq -o Dir::State="$apt" -o Dir::Cache="$apt" -o Dir::Etc::SourceList="$apt/sources.list" \
    -o Dir::Etc::SourceParts=/dev/null -o Dir::State::status=/dev/null -o APT::Sandbox::User=root "$@") >>"$get/log" 2>&1 ||
    { cat "$get/log" >&2; die "could not get packages of $release"; }
}
# shellcheck disable=SC2086
apt_of $FLOOR download $FLOOR_PACKAGES
# shellcheck disable=SC2086
apt_of $OURS download $OUR_PACKAGES
for package in "$get"/*.deb; do dpkg-deb -x "$package" "$root"; done
# Links to the root of a file system, here to this one's.
find "$root" -type l -lname '/*' | while read -r link; do ln -sfn "$root$(readlink "$link")" "$link"; done

# Debian's libpcap.a is for programs only, not for libraries, and captures from D-Bus. We read files.
apt_of $OURS source --download-only libpcap
mkdir "$get/libpcap"
tar -xf "$get"/libpcap_*.orig.tar.?z -C "$get/libpcap" --strip-components 1
build_libpcap() {
  cd "$get/libpcap" &&
    ./configure CFLAGS="-O2 -fPIC --sysroot=$root" --disable-shared --without-libnl --disable-dbus --disable-usb \
      --disable-bluetooth --disable-rdma && make libpcap.a && cp libpcap.a "$root/usr/lib/x86_64-linux-gnu/"
}
(build_libpcap) >>"$get/log" 2>&1 || { tail -n 30 "$get/log" >&2; die "could not build libpcap"; }
sed -i '/^Requires/d' "$root/usr/lib/x86_64-linux-gnu/pkgconfig/libpcap.pc"
rm -rf "$get"
touch "$root/complete"
