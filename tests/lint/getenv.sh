#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# getenv.sh SOURCE_ROOT: fails when product code believes the environment in a privileged program, where the caller wrote
# it. secure_getenv() says nothing there.
set -eu
cd "$1"
[ -d proto ] || { echo "no sources under $1: wrong folder?" >&2; exit 2; }
found=$(grep -rnE '(^|[^_[:alnum:]])getenv\b' --include='*.cc' --include='*.c' --include='*.h' proto verbs engine tools || true)
[ -z "$found" ] || { printf '%s\nuse secure_getenv(), and settings through ibv::setting()\n' "$found"; exit 1; }
