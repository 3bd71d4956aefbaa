# SPDX-License-Identifier: Apache-2.0
# The action and what follows where kernel.io_uring_disabled is 2 (run.sh has set it): no program of the machine has a ring.
. /tests/scenarios/common.sh
[ "$(cat /proc/sys/kernel/io_uring_disabled)" = 2 ] || fail "io_uring is not disabled"
as_user mkdir /tmp/ci
as_user env UROCE_TARBALL="$(echo /packages/uroce-*-linux-x86_64.tar.zst)" UROCE_CI_FOLDER=/tmp/ci /uroce/tools/package/ci.sh >/tmp/ci.sh ||
  fail "the action"
. /tmp/ci.sh
as_user uroce doctor | grep -A 1 "io_uring:" | grep "sysctl -w kernel.io_uring_disabled=0" || fail "uroce doctor does not say why"
use_it
