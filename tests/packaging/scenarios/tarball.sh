# SPDX-License-Identifier: Apache-2.0
# Unpacks the tarball as an ordinary user and uses it from there.
. /tests/scenarios/common.sh
as_user mkdir "/tmp/some folder" /tmp/home
as_user tar -C /tmp/home -xf /packages/uroce-*-linux-x86_64.tar.zst || fail "tar"
export PATH="$(echo /tmp/home/uroce-*/bin):$PATH"
use_it
for bundled in libisal2 libpcap0.8-dev liburing-dev libfmt-dev; do
  grep -q Copyright /tmp/home/uroce-*/share/doc/uroce/licenses/$bundled || fail "no notice of $bundled"
done
if command -v pytest-3 >/dev/null; then
  use_pytest env PYTHONPATH="$(echo /tmp/home/uroce-*/share/uroce/python)"
  use_pytest env PYTHONPATH="$(echo /packages/*.whl)"
fi

# A path that the loader can't take is refused with words.
as_user sh -c 'cp -r /tmp/home/uroce-* "/tmp/some folder/uroce"'
as_user "/tmp/some folder/uroce/bin/uroce" run -- true 2>/tmp/log && fail "a path with a space"
as_user env HOME=/tmp/home "/tmp/some folder/uroce/bin/uroce" enable 2>>/tmp/log && fail "uroce enable, in a path with a space"
[ "$(grep -c "in another folder" /tmp/log)" = 2 ] || { cat /tmp/log; fail "no clear words about a space"; }
