#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pick_inputs.py CONTROL_FILE MOST: of the inputs that a libFuzzer merge (-merge=1 -merge_control_file=...) has run, the
few that together reach most of what its first corpus does not, one name a line.
"""
import pathlib
import sys


def main(control_file, most):
    lines = control_file.read_text().splitlines()
    count, in_corpus = int(lines[0]), int(lines[1])
    names, results = lines[2 : 2 + count], lines[2 + count :]
    edges = {int(index): set(rest) for kind, index, *rest in map(str.split, results) if kind == "COV"}
    have = set().union(*(edges[i] for i in range(in_corpus) if i in edges))
    candidates = {i: e for i, e in edges.items() if i >= in_corpus}
    for _ in range(most):
        best = max(candidates, key=lambda i: len(candidates[i] - have), default=None)
        if best is None or not candidates[best] - have:
            break
        have |= candidates.pop(best)
        print(names[best])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
