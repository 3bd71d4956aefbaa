#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the reference captures in pcaps/ anew. They come from the simulated wire and do not vary: a difference in git is a
# difference in what the NIC sends.
set -euo pipefail
. "$(dirname "$0")/lib/setup.sh"
cd "$ROOT"
build release uroce_reference_captures
UROCE_WRITE_PCAPS=pcaps build/release/bin/uroce_reference_captures --gtest_brief=1
git status --short pcaps
