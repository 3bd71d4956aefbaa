# SPDX-License-Identifier: Apache-2.0
# Installs the .rpm with Debian's rpm, in a system whose libc is the oldest that it names, uses it, and removes it without a
# trace. What it needs is looked at: a database of Debian's has none of it.
. /tests/scenarios/common.sh
rpm_do() { rpm --force-debian "$@"; }
query() { rpm_do -qp "$@" 2>/tmp/rpm.log || { cat /tmp/rpm.log; fail "rpm -qp $*"; }; }

for package in /packages/*.rpm; do
  # Libraries of the distribution only.
  query --requires "$package" | sort -u >/tmp/requires
  strange=$(grep -Ev '^(rpmlib\(.*|rtld\(GNU_HASH\)|/bin/bash|(libc|libm|libpthread|libdl|libgcc_s|ld-linux-x86-64|libibverbs|librdmacm)\.so\..*|uroce = .*)$' /tmp/requires) &&
    fail "$package needs $strange"
  newest=$(grep -o 'GLIBC_2\.[0-9]*' /tmp/requires | sort -t. -k2n | tail -n 1)
  [ "${newest#GLIBC_2.}" -le 31 ] || fail "$package needs $newest"
  # No program finds ours in the place of its own.
  query --provides "$package" | grep '\.so' && fail "$package provides a library"
  query -l "$package" | grep -Ev '^/usr/(bin|lib/uroce|include/uroce|share)(/|$)' && fail "$package has files elsewhere"
done
query -l /packages/uroce-tools-*.rpm | grep -q '^/usr/bin/uroce-server$' || fail "no uroce-server"
query -l /packages/uroce-[0-9]*.rpm | grep -q '^/usr/share/man/man1/uroce.1.gz$' || fail "no manual page"

files() { find / -xdev \( -path /proc -o -path /tmp -o -path /var/lib/rpm -o -path /root \) -prune -o -print | sort; }
files >/tmp/before
rpm_do --nodeps -i /packages/*.rpm >/tmp/rpm.log 2>&1 || { cat /tmp/rpm.log; fail "rpm -i"; }
use_it uroce-server uroce-client
rpm_do -V --nodeps uroce uroce-tools || fail "rpm -V"
rpm_do -e uroce-tools uroce >/tmp/rpm.log 2>&1 || { cat /tmp/rpm.log; fail "rpm -e"; }
files >/tmp/after
diff /tmp/before /tmp/after || fail "files are left"
