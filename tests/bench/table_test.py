#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what the benchmark says of figures that miss their targets or differ from round to round."""
import bench


def lines(ours, base, target, why="", cache_lines=(100, 110, 120)):
    point = bench.Point("a figure", "us", None, None, "raw", target, why=why)
    point.values = list(zip(ours, base))
    point.cache_lines = cache_lines
    summary = point.summary()
    return list(bench.remarks(summary, [summary["why"]], 100))


def main():
    assert lines([10, 11, 12], [10, 10, 10], "<= 1.5") == []
    assert lines([16, 17, 18], [10, 10, 10], "<= 1.5") == ["MISSED"]
    assert lines([16, 17, 18], [10, 10, 10], "<= 1.5", "wake-ups") == ["MISSED [1]"]
    assert lines([10, 11, 15.1], [10, 10, 10], "<= 1.5", "wake-ups") == ["rounds differ"]
    assert lines([10, 10, 10], [3, 10, 10], "<= 1.5") == ["baseline's by 3.3"]
    assert lines([10, 10, 10], [10, 10, 10], "<= 1.5", cache_lines=[100, 350, 350]) == ["no common cache in 2 of 3"]
    assert lines([10, 10, 10], [10, 10, 10], "<= 1.5", cache_lines=[100, None, 350]) == ["no common cache in 1 of 3"], "not measured once"

    # The machine changes meanwhile: both are measured again.
    cache_lines = iter([100, 350, 350, 360])
    bench.measure.cache_line = lambda: next(cache_lines)
    bases = iter([1, 2])
    point = bench.Point("a figure", "us", lambda seconds: seconds, lambda seconds: next(bases), "raw", "<= 1.5")
    point.run(5)
    assert point.values == [(5, 2)] and point.cache_lines == [350], (point.values, point.cache_lines)


main()
