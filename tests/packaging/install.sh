#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILD_DIR VERSION: what `cmake --install` gives works, also after it has been moved.
set -eu
build=$1 version=$2
here=$(cd "$(dirname "$0")" && pwd)
unset "${!UROCE_@}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

cmake --install "$build" --prefix "$tmp/first" >"$tmp/log" || { cat "$tmp/log"; fail "cmake --install"; }
mv "$tmp/first" "$tmp/moved"
cd /
at=$tmp/moved

for program in bin/uroce bin/rdma_server bin/rdma_client bin/uroce-sim lib/uroce/uroce-broker; do
  [[ $("$at/$program" --version) == "${program##*/} $version"* ]] || fail "$program is not version $version"
done
grep -q "^## \[$version\]\|will be $version" "$at/share/doc/uroce/CHANGELOG.md" || fail "CHANGELOG.md does not know $version"

# The library, and from it the broker.
[[ $("$at/bin/uroce" run -- sh -c 'echo $LD_PRELOAD') == "$at/lib/uroce/libibverbs.so.1"* ]] || fail "not the installed library"
[[ $("$at/bin/uroce" run --devices 2 -- ibv_devices) == *uroce1* ]] || fail "ibv_devices finds no NICs"
[[ $("$at/bin/uroce" doctor) == *"sharing of addresses: $at/bin/../lib/uroce/uroce-broker"* ]] || fail "no broker"
# By a link elsewhere, as ~/bin has.
ln -s "$at/bin/uroce" "$tmp/uroce"
"$tmp/uroce" run -- ibv_devices >"$tmp/log" || fail "not by a link"

# Manual pages have what the programs have.
for page in uroce:--faults uroce:UROCE_VENDOR 'uroce:UROCE DOCTOR' uroce:--plain rdma_server:--loop rdma_client:--verify uroce-sim:--seeds; do
  file=$at/share/man/man1/${page%%:*}.1.gz
  zcat "$file" | tr -d '\\' | grep -q -e "${page#*:}" || fail "$file does not have ${page#*:}"
done

# Test suites: GoogleTest, as a project of its own that knows the installed files only. Not with sanitizers, which the example does
# not have.
if ! ldd "$at/lib/uroce/libibverbs.so.1" | grep -q 'lib[at]san'; then
  "$here/gtest_example.sh" "$here/../../docs/examples/gtest" "$at" || fail "the example for GoogleTest"
fi
# The plugin for pytest as a wheel, which Python can use as it is.
wheel=$("$here/../../tools/package/make_wheel.py" "$build/pytest_uroce-$version.dist-info" "$tmp")
PYTHONPATH=$wheel /usr/bin/python3 -c "
import importlib.metadata as m, zipfile
names = set(zipfile.ZipFile('$wheel').namelist())
listed = {line.split(',')[0] for line in m.distribution('pytest-uroce').read_text('RECORD').splitlines()}
assert names == listed, (names, listed)
assert [e.value for e in m.entry_points(group='pytest11') if e.name == 'uroce'] == ['pytest_uroce']
assert m.version('pytest-uroce') == '$version'" || fail "the wheel"

# Completion: commands, options of a command, and what another command completes behind --.
words() { # words WORD...: what bash offers for the last one
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _uroce
  echo "${COMPREPLY[*]}"
}
PATH=$at/bin:$PATH
. "$at/share/bash-completion/completions/uroce"
[[ $(words uroce ru) == run ]] || fail "completion of a command"
[[ $(words uroce run --fau) == --faults ]] || fail "completion of an option"
[[ $(words rdma_client --veri) == --verify ]] || fail "completion of rdma_client"
[[ $(words uroce run -- rdma_cli) == rdma_client* ]] || fail "completion of what runs"
echo "all as it should be"
