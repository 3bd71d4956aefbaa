# SPDX-License-Identifier: Apache-2.0
# The commands of our pages, and the lessons, do with the installed packages what the pages show: as root, since
# nobody else can have namespaces in a chroot.
. /tests/scenarios/common.sh
(cd /packages && dpkg -i uroce_*.deb uroce-tools_*.deb) >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "dpkg -i"; }

# What looks like a build, to pages that say build/release/bin.
mkdir -p /tmp/build/bin
ln -s /usr/lib/uroce /tmp/build/lib
ln -s /usr/bin/uroce /usr/bin/uroce-sim /usr/lib/uroce/learn /tmp/build/bin
for side in server client; do ln -s /usr/bin/uroce-$side /tmp/build/bin/rdma_$side; done

for page in README.md docs/{command,control,explain,faults,hosts,rdmacm}.md; do
  python3 /uroce/tests/programs/docs/run_page.py /uroce /tmp/build "$page" >/tmp/page.log 2>&1 || { cat /tmp/page.log; fail "$page"; }
  echo "worked: $page, $(grep -c '^ok ' /tmp/page.log) blocks"
done
for lesson in /tmp/build/bin/learn/*; do
  python3 /uroce/tools/learn/pages.py --check /tmp/build "${lesson##*/}" >/tmp/page.log 2>&1 ||
    [ $? = 77 ] || { cat /tmp/page.log; fail "lesson ${lesson##*/}"; }
done
echo "worked: $(ls /tmp/build/bin/learn | wc -l) lessons"
