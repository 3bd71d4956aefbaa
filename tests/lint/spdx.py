#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source file names its licence in its first line, or behind #!: spdx.py SOURCE_ROOT [--add].

--add adds the line where it is missing. Not for lessons (tools/learn), which pages print as a whole, nor for examples
(docs), which are for others to take.
"""
import pathlib
import sys

LICENSE = "SPDX-License-Identifier: Apache-2.0"
COMMENTS = {".cc": "//", ".h": "//", ".c": "//", ".rs": "//", ".def": "//", ".py": "#", ".sh": "#"}
TOPS = ("proto", "verbs", "engine", "tools", "tests")


def is_named(lines, wanted):
    place = 1 if lines and lines[0].startswith("#!") else 0
    return len(lines) > place and lines[place].rstrip("\n") == wanted, place


def main(root, add):
    wrong = seen = 0
    for top in TOPS:
        for file in sorted((root / top).rglob("*")):
            name = file.relative_to(root).as_posix()
            if file.suffix not in COMMENTS or name.startswith("tools/learn/") or not file.is_file():
                continue
            seen += 1
            wanted = f"{COMMENTS[file.suffix]} {LICENSE}"
            lines = file.read_text().splitlines(keepends=True)
            fine, place = is_named(lines, wanted)
            if fine:
                continue
            if add:
                file.write_text("".join([*lines[:place], wanted + "\n", *lines[place:]]))
                continue
            print(f"{name}:{place + 1}: expected: {wanted}")
            wrong += 1
    if seen == 0:
        sys.exit(f"no sources under {root}: wrong folder?")
    if wrong:
        sys.exit(f"{wrong} files; add the line: tests/lint/spdx.py . --add")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), sys.argv[2:] == ["--add"])
