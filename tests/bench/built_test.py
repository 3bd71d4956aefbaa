#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that tools/bench.sh builds every program that the benchmark runs: in a fresh clone there are no others."""
import pathlib
import re

HERE = pathlib.Path(__file__).parent


def main():
    script = (HERE / "../../tools/bench.sh").read_text(encoding="utf-8")
    built = set(re.search(r"^build release (.*)$", script, re.MULTILINE)[1].split())
    run = set()
    for file in HERE.glob("*.py"):
        run |= set(re.findall(r'"(uroce(?:_bench_\w+)?|rdma_\w+)"', file.read_text(encoding="utf-8")))
    assert len(run) > 5, run
    assert run <= built, f"tools/bench.sh does not build {sorted(run - built)}"


main()
