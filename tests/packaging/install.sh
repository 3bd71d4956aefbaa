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

# Manual pages have what the programs have; so have completions, of all commands and all options.
words() { # words WORD...: what bash offers for the last one
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _uroce
  printf '%s\n' ${COMPREPLY[@]+"${COMPREPLY[@]}"}
}
PATH=$at/bin:$PATH
. "$at/share/bash-completion/completions/uroce"
# options_of HELP: the long options, which begin a line, perhaps behind a short one.
options_of() { grep -o '^ \+-[^ ]*' "$1" | grep -o -e '--[a-z0-9-]*' | sort -u; }
check_words() { # check_words PROGRAM [COMMAND]
  local word
  "$@" --help >"$tmp/help" || fail "$* --help"
  zcat "$at/share/man/man1/$1.1.gz" | tr -d '\\' >"$tmp/page"
  words "$@" -- >"$tmp/words"
  [ -n "$(options_of "$tmp/help")" ] || fail "$* --help shows no options"
  for word in $(options_of "$tmp/help"); do
    grep -qw -e "$word" "$tmp/page" || fail "the manual page does not have $* $word"
    grep -qx -e "$word" "$tmp/words" || fail "completion does not have $* $word"
  done
}
for program in uroce rdma_server rdma_client uroce-sim; do check_words $program; done
commands=$(uroce --help | sed '1,/^Subcommands:/d' | grep -o '^  [a-z]\+')
[ "$(wc -w <<<"$commands")" -ge 14 ] || fail "uroce --help shows few commands: $commands"
for command in $commands; do
  [[ $(words uroce "$command") == "$command" ]] || fail "completion does not have uroce $command"
  zcat "$at/share/man/man1/uroce.1.gz" | grep -qi "uroce $command" || fail "the manual page does not have uroce $command"
  check_words uroce "$command"
done
for page in uroce:--faults uroce:UROCE_VENDOR 'uroce:UROCE DOCTOR' uroce:--plain uroce:share/doc/uroce rdma_server:--loop rdma_client:--verify uroce-sim:--seeds; do
  file=$at/share/man/man1/${page%%:*}.1.gz
  zcat "$file" | tr -d '\\' | grep -q -e "${page#*:}" || fail "$file does not have ${page#*:}"
done

# Pages that help and messages name.
named=$({ "$at/bin/uroce" run --help; "$at/bin/rdma_client" --help; } | grep -o 'docs/[a-z0-9/_-]*\.md' | sort -u)
[ "$(wc -w <<<"$named")" -ge 5 ] || fail "help names few pages: $named"
for page in $named; do
  [ -s "$at/share/doc/uroce/$page" ] || fail "help names $page, which is not installed"
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

# Completion of a part of a word, and behind -- of what another command completes.
[[ $(words uroce ru) == run ]] || fail "completion of a command"
[[ $(words uroce run --fau) == --faults ]] || fail "completion of an option"
[[ $(words rdma_client --veri) == --verify ]] || fail "completion of rdma_client"
[[ $(words uroce run -- rdma_cli) == rdma_client* ]] || fail "completion of what runs"
echo "all as it should be"
