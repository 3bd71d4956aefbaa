# SPDX-License-Identifier: Apache-2.0
"""The history of the benchmark: a line of JSON for each recorded run, in docs/bench-history.ndjson."""
import datetime
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def commit():
    """The short name of the commit that was measured; "-dirty" behind it when sources were changed."""
    described = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
                               capture_output=True, text=True)
    return described.stdout.strip() or "unknown"


def line(report, rounds, seconds, commit_name, date):
    """One run: when, of what, on which machine, and each figure with its baseline and their ratio."""
    points = {p["name"].strip() + " / " + p["baseline_name"]: [p["ours"], p["baseline"], p["ratio"]] for p in report["points"]}
    rounded = {name: [float(f"{value:.4g}") for value in values] for name, values in points.items()}
    micro = {name: float(f"{ns:.4g}") for name, ns in report.get("micro_ns", {}).items()}
    return json.dumps({"date": date, "commit": commit_name, **report["machine"], "rounds": rounds, "seconds": seconds,
                       "points": rounded, "micro_ns": micro})


def append(path, report, rounds, seconds):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")
    with open(path, "a", encoding="utf-8") as file:
        file.write(line(report, rounds, seconds, commit(), now) + "\n")
