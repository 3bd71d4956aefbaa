#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what users install into build/packages:
#   uroce, uroce-tools, python3-pytest-uroce (.deb)           for this machine's distribution
#   uroce-VERSION-linux-x86_64.tar.zst                        for any with glibc 2.31 or newer; runs from any folder
#   uroce, uroce-tools (.rpm)                                  the same programs, for distributions that use rpm
#   pytest_uroce-VERSION-py3-none-any.whl                     the plugin for pytest, for pip
#   tools/package.sh            all of it (Debian 12; as root or with sudo, if packages are missing)
#   tools/package.sh deb        the packages only
#   tools/package.sh tarball    the tarball and .rpm only
set -euo pipefail
. "$(dirname "$0")/lib/setup.sh"
cd "$ROOT"
what=${1:-all}
umask 022
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH  # The same sources give the same bytes.
out=$ROOT/build/packages
sysroot=${UROCE_SYSROOT:-$ROOT/build/sysroot}
# rpmbuild, and the configure of libpcap, know no way to quote.
if [ "$what" != deb ] && [[ $ROOT$sysroot = *[[:space:]]* ]]; then
  die "the tarball and .rpm need a clone in a folder without a space in its path; tools/package.sh deb does not"
fi
mkdir -p "$out"
# shellcheck disable=SC2086
install_packages $PACKAGES_BUILD $PACKAGES_PACKAGE
common=(-G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo
  "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG -ffile-prefix-map='$ROOT/'="
  -DUROCE_UNITY=ON -DUROCE_TESTS=OFF -DUROCE_BENCH=OFF)

# quietly COMMAND...: what it prints is shown only if it fails.
quietly() {
  local log
  log=$(mktemp)
  "$@" >"$log" 2>&1 || { tail -n 60 "$log" >&2; rm -f "$log"; die "failed: $*"; }
  rm -f "$log"
}

if [ "$what" != tarball ]; then
  say "packages of Debian"
  tree=build/package-deb
  quietly cmake -S . -B $tree "${common[@]}" -DUROCE_RENAME_TOOLS=ON \
    -DUROCE_PYTHON_DIR=lib/python3/dist-packages
  quietly cmake --build $tree
  rm -f "$out"/*.deb
  (cd $tree && quietly cpack -B "$out" && rm -rf "$out/_CPack_Packages")
fi

if [ "$what" != deb ]; then
  say "tarball"
  tree=build/package-portable
  tools/package/sysroot.sh "$sysroot"
  lib=$sysroot/usr/lib/x86_64-linux-gnu
  # configure [OPTION...]
  configure() {
    PKG_CONFIG_SYSROOT_DIR=$sysroot PKG_CONFIG_LIBDIR=$lib/pkgconfig:$sysroot/usr/share/pkgconfig \
      quietly cmake -S . -B $tree "${common[@]}" -DUROCE_PORTABLE=ON -DUROCE_LESSONS=OFF -DCMAKE_SYSROOT="$sysroot" "$@"
  }
  configure -DUROCE_RENAME_TOOLS=OFF
  quietly cmake --build $tree
  version=$(sed -n 's/^project(uroce VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  name=uroce-$version-linux-x86_64
  rm -rf "${out:?}/$name" "$out/$name.tar.zst"
  quietly cmake --install $tree --prefix "$out/$name" --strip
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    -C "$out" -c "$name" | zstd -q -19 -T0 -o "$out/$name.tar.zst"
  rm -rf "${out:?}/$name"

  say "rpm"
  # Their librdmacm-utils has programs of the old names, too.
  configure -DUROCE_RENAME_TOOLS=ON
  quietly cmake --build $tree
  rm -f "$out"/*.rpm
  (cd $tree && quietly cpack -G RPM -B "$out" -D "CPACK_COMPONENTS_ALL=command;tools" && rm -rf "$out/_CPack_Packages")
fi
rm -f "$out"/*.whl
quietly tools/package/make_wheel.py $tree/pytest_uroce-*.dist-info "$out"
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
say "$(cd "$out" && ls -sh1)"
