#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# format.sh SOURCE_ROOT: fails when clang-format would change a source file. Its versions differ:
# the one of Debian 12 decides.
set -eu
cd "$1"
[ -d proto ] || { echo "no sources under $1: wrong folder?" >&2; exit 2; }
find proto verbs engine tools tests \( -name '*.cc' -o -name '*.h' -o -name '*.c' \) -print0 |
  xargs -0 clang-format --dry-run -Werror ||
  { echo "format them: find proto verbs engine tools tests -name '*.cc' -o -name '*.h' -o -name '*.c' | xargs clang-format -i"; exit 1; }
