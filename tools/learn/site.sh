#!/usr/bin/env bash
# site.sh [DIRECTORY]: renders docs/ as a site, the lessons in front, with a search that also works from disk. Open
# DIRECTORY/index.html (build/site without an argument). Sphinx and its parser for Markdown are installed when they are missing.
set -euo pipefail
. "$(dirname "$0")/../lib/setup.sh"
cd "$ROOT"
# shellcheck disable=SC2086
install_packages $PACKAGES_SITE
out=${1:-build/site}
mkdir -p "$out"
sphinx-build -q -b html -c tools/learn/site -d "$out/.doctrees" docs "$out"
printf '<!DOCTYPE html><meta http-equiv="refresh" content="0; url=learn/en/README.html">\n' >"$out/index.html"
echo "$out/index.html"
