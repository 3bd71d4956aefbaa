#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that a recorded run of the benchmark is one line that says what was measured, on what, with which result."""
import json
import pathlib
import tempfile

import history


def main():
    point = {"name": "WRITE 64 KiB ", "baseline_name": "raw UDP", "ours": 9.87654, "baseline": 10.0, "ratio": 0.987654}
    report = {"machine": {"processor": "a processor", "cores": 2, "kernel": "6.1"}, "points": [point],
              "micro_ns": {"post a WR": 12.3456}}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "history.ndjson"
        history.append(path, report, 5, 1.0)
        history.append(path, report, 1, 0.5)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 2, lines
    first = lines[0]
    assert first["points"] == {"WRITE 64 KiB / raw UDP": [9.877, 10.0, 0.9877]}, first
    assert first["micro_ns"] == {"post a WR": 12.35}, first
    assert (first["processor"], first["cores"], first["rounds"], first["seconds"]) == ("a processor", 2, 5, 1.0), first
    assert first["commit"] and first["date"].endswith("Z"), first


main()
