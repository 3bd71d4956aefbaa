#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table at the head of docs/performance.md: the last recorded run on each processor.

    summary.py HISTORY PAGE           writes it there, between two comments
    summary.py --check HISTORY PAGE   status 1 when another one stands there
"""
import argparse
import json
import pathlib
import re
import sys

import bench
import measure

COLUMNS = 3  # Of processors: more are too wide to be read.
BEGIN, END = "<!-- from docs/bench-history.ndjson -->", "<!-- until here -->"


def all_points():
    """Of every benchmark, whatever is installed here."""
    measure.installed = lambda program: True
    measure.has_long_path = lambda: True
    return list(bench.points(bench.Runs()))


def last_runs(path):
    """The newest run of each processor, oldest first."""
    runs = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        runs.pop(run["model"], None)
        runs[run["model"]] = run
    return list(runs.values())[-COLUMNS:]


def cell(point, run):
    """What was measured, and its ratio to the baseline; bold when that misses the target."""
    values = run["points"].get(f"{point.name.strip()} / {point.base_name}")
    if values is None:
        return "–"
    ours, _, ratio = values
    relation, limit = point.target.split()
    met = ratio >= float(limit) if relation == ">=" else ratio <= float(limit)
    text = f"{ours:.{point.digits}f} ({ratio:.2f})"
    return text if met else f"**{text}**"


def table(runs):
    heads = ["ours, and its ratio to the baseline", "baseline", "target"]
    heads += [f"{run['processor'].replace('(R)', '')} {run['model']}, {run['date'][:10]}" for run in runs]
    yield "| " + " | ".join(heads) + " |"
    yield "| --- " * len(heads) + "|"
    for point in all_points():
        cells = [f"{point.name.strip()} [{point.unit}]", point.base_name, "" if point.target == ">= 0" else point.target]
        yield "| " + " | ".join(cells + [cell(point, run) for run in runs]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("history")
    parser.add_argument("page")
    args = parser.parse_args()

    page = pathlib.Path(args.page)
    before = page.read_text(encoding="utf-8")
    lines = "\n".join(table(last_runs(args.history)))
    after = re.sub(f"{BEGIN}\n.*?{END}", lambda _: f"{BEGIN}\n{lines}\n{END}", before, flags=re.DOTALL)
    if args.check and after != before:
        sys.exit(f"{page} has another table than the history; write it anew: {sys.argv[0]} {args.history} {page}")
    if not args.check:
        page.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
