#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and measures every figure beside its baseline: docs/performance.md says what they mean.
#   tools/bench.sh             5 rounds of a second each: some 15 minutes
#   tools/bench.sh quick       two to three minutes with the build's cache warm: to see that it works
#   tools/bench.sh record      as without a word, and adds a line to docs/bench-history.ndjson, and to the table of
#                              docs/performance.md, to be committed
#   tools/bench.sh plot        also throughput over message size, into docs/ (another 6 minutes)
# More arguments go to tests/bench/bench.py, e.g. parts of names: tools/bench.sh quick WRITE
# Results: the table here, everything in build/bench.json.
set -euo pipefail
# shellcheck source=tools/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

options=(--rounds 5 --seconds 1)
history=
packages=$PACKAGES_BENCH
case ${1:-} in
  quick) options=(--rounds 1 --seconds 0.5); shift ;;
  record) history=$ROOT/docs/bench-history.ndjson; options+=(--record "$history"); shift ;;
  plot) options+=(--plot "$ROOT/docs/throughput.svg"); packages+=" python3-matplotlib"; shift ;;
esac
# shellcheck disable=SC2086
install_packages $PACKAGES_BUILD $packages
build release uroce_bench_udp uroce_bench_verbs uroce_bench_micro uroce_bench_path uroce rdma_server rdma_client
say "measuring (machines differ, and other programs disturb: look at the ratios)"
# Debian's, which its matplotlib belongs to.
/usr/bin/python3 "$ROOT/tests/bench/bench.py" "${options[@]}" --json "$ROOT/build/bench.json" "$@"
[ -z "$history" ] || /usr/bin/python3 "$ROOT/tests/bench/summary.py" "$history" "$ROOT/docs/performance.md"
