#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what the benchmark says of figures that miss their targets or differ from round to round."""
import bench


def lines(ours, base, target, why=""):
    point = bench.Point("a figure", "us", None, None, "raw", target, why=why)
    point.values = list(zip(ours, base))
    summary = point.summary()
    return list(bench.remarks(summary, [summary["why"]]))


def main():
    assert lines([10, 11, 12], [10, 10, 10], "<= 1.5") == []
    assert lines([16, 17, 18], [10, 10, 10], "<= 1.5") == ["MISSED"]
    assert lines([16, 17, 18], [10, 10, 10], "<= 1.5", "wake-ups") == ["MISSED [1]"]
    assert lines([10, 11, 15.1], [10, 10, 10], "<= 1.5", "wake-ups") == ["rounds differ"]
    assert lines([10, 10, 10], [3, 10, 10], "<= 1.5") == ["baseline's by 3.3"]


main()
