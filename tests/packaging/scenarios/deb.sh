# SPDX-License-Identifier: Apache-2.0
# Installs the packages, uses them, replaces them under a program that runs, and removes them without a trace.
. /tests/scenarios/common.sh

files() { find / -xdev \( -path /proc -o -path /tmp -o -path /var/cache -o -path /var/log -o -path /var/lib/dpkg \) -prune -o -print | sort; }
files >/tmp/before
for tool in gcc make cmake; do ! command -v $tool >/dev/null || fail "not a clean system: $tool"; done

packages="uroce uroce-tools"
! command -v pytest-3 >/dev/null || packages="$packages python3-pytest-uroce"
install_packages() { (cd /packages && dpkg -i ${packages// /_*.deb }_*.deb) >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "dpkg -i"; }; }
install_packages
use_it uroce-server uroce-client
as_user uroce run -- /usr/lib/uroce/learn/20_device >/tmp/lesson.log 2>&1 || { cat /tmp/lesson.log; fail "a lesson"; }
grep -q uroce0 /tmp/lesson.log || fail "a lesson that finds no NIC"
[ -z "$(find /usr/share/doc/uroce -type d -empty)" ] || fail "empty folders: $(find /usr/share/doc/uroce -type d -empty)"
[ -e /usr/share/doc/uroce-tools/learn/en/../../faults.md ] || fail "a link in the lessons leads nowhere"
as_user uroce diagnose >/tmp/diagnose.log || { cat /tmp/diagnose.log; fail "uroce diagnose"; }
grep -q "client: uroce-client" /tmp/diagnose.log || { cat /tmp/diagnose.log; fail "programs that have another name"; }
for page in uroce uroce-server uroce-client uroce-sim; do
  ! zcat /usr/share/man/man1/$page.1.gz | grep 'rdma_\(server\|client\)' || fail "the manual page of $page names programs that are not there"
done
! command -v pytest-3 >/dev/null || use_pytest env

# A server that runs while its package is installed again meets a client of the new one.
as_user sh -c 'uroce run --addr 127.0.0.5 -- ib_send_bw -x 1 -F -n 100' >/tmp/old.log 2>&1 &
old=$!
until grep -q ":$(printf %04X 18515) .* 0A " /proc/net/tcp*; do kill -0 $old || fail "the old server"; sleep 0.1; done
install_packages
as_user uroce run --addr 127.0.0.5 -- ib_send_bw -x 1 -F -n 100 127.0.0.1 >/tmp/new.log 2>&1 || { cat /tmp/new.log; fail "the new client"; }
wait $old || fail "the old server"
echo "worked: an upgrade under a program that runs"

# Python compiles for root what root uses.
! command -v pytest-3 >/dev/null || python3 -c 'import pytest_uroce' || fail "import pytest_uroce"
dpkg --purge $packages >/tmp/dpkg.log 2>&1 || fail "dpkg --purge"
files >/tmp/after
diff /tmp/before /tmp/after || fail "files are left"
! command -v uroce || fail "uroce is left"
! ldconfig -p | grep uroce || fail "the loader knows uroce"
