#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which tests hold which clause of the InfiniBand specification: clauses.py SOURCE_ROOT [--write].

Prints docs/clauses.md from the comments of the code and of the tests, and from docs/conformance.md. Fails when the page
is out of date; --write writes it. A test belongs to the clauses in the comment above it; without one, to those of its
section (`// --- ...`); else to those of its file's first comment.
"""
import collections
import pathlib
import re
import sys

PAGE = "docs/clauses.md"
CODE = ("proto", "verbs")
TESTS = "tests/unit"
CASES = "docs/conformance.md"
# Volume 1 (9.7.4.1.5, "9.7.5.1.4?", "10.2.9 ?"), its annexes (A17, A19) and compliance statements (C9-88).
CLAUSE = re.compile(r"(?<![\w.-])((?:9|1[0-3])(?:\.\d+)+|A(?:11|17|19)(?:\.\d+)*|o?[CA]\d+-\d+)(\.?\?| \?)?(?![\d%]| ?[munk]?s\b)")
TEST = re.compile(r"^TEST(?:_[FP])?\((\w+), (\w+)\)")
CASE = re.compile(r"^\| ([^|]+) \| [^|]*\((IBTA [^|]*)\) \|")
HEAD = """\
# Clauses and their tests

This page lists, for each clause of the InfiniBand Architecture Specification, Volume 1, that our code, tests or cases name, what holds it. It is printed
from their comments (`tests/lint/clauses.py . --write`); `ctest -L lint` fails when it is out of date.

A "?" marks a number, or its last part, that nothing confirmed: the reading is ours.
A number can stand in both forms: then the clause is known, but not that all of these rules are in it.
"Code" has the files that follow the clause, without folders. "Tests" are those of `tests/unit`, by the name of their suite. "Cases" are rows of [conformance.md](conformance.md). The simulator's judges, the
replays, the fuzzers and the tests of the connection manager (chapter 12) hold clauses too, but name few, and are not listed.

| clause | code | tests | cases |
| --- | --- | --- | --- |
"""


def clauses_in(text):
    """The clauses that a comment names. Those of two parts (9.6) only beside "IBTA", since there are other numbers."""
    found = []
    for match in CLAUSE.finditer(text):
        name, doubt = match.groups()
        if name[0].isdigit() and (name.count(".") == 1 and "IBTA" not in text or is_address(name)):
            continue
        found.append(name + (" ?" if doubt else ""))
    return found


def is_address(name):
    return name.count(".") == 3 and max(map(int, name.split("."))) > 20


def comments(lines):
    """Each comment of whole lines: its text, and the number of the line behind it."""
    block = []
    for number, line in enumerate(lines):
        stripped = line.strip()
        if stripped.startswith("//"):
            block.append(stripped.lstrip("/ "))
        elif block:
            yield " ".join(block), number
            block = []
    if block:
        yield " ".join(block), len(lines)


def clauses_of_tests(lines):
    """(suite, test, clause) of a file of tests."""
    above = {after: text for text, after in comments(lines)}
    header = next((text for text, _ in comments(lines)), "")
    section = ""
    for number, line in enumerate(lines):
        if line.startswith("// ---"):
            section = line
        match = TEST.match(line)
        if match:
            own = above.get(number, "")
            named = clauses_in(own) or clauses_in(section) or clauses_in(header)
            yield from ((*match.groups(), clause) for clause in dict.fromkeys(named))


def order(clause):
    parts = re.split(r"[.\- ]", clause.rstrip(" ?"))
    return (not clause[0].isdigit(), [(int(p), "") if p.isdigit() else (0, p) for p in parts], clause)


def page(root):
    code, tests, cases = (collections.defaultdict(dict) for _ in range(3))
    for top in CODE:
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in (".h", ".cc", ".def"):
                continue
            for line in file.read_text().splitlines():
                for clause in clauses_in(line.partition("//")[2]):
                    code[clause][file.name] = True
    for file in sorted((root / TESTS).rglob("*.cc")):
        for suite, test, clause in clauses_of_tests(file.read_text().splitlines()):
            tests[clause].setdefault(suite, []).append(test)
    for line in (root / CASES).read_text().splitlines():
        match = CASE.match(line)
        for clause in clauses_in(match.group(2)) if match else []:
            cases[clause][match.group(1)] = True
    rows = []
    for clause in sorted({*code, *tests, *cases}, key=order):
        held = "; ".join(f"{suite}: {', '.join(names)}" for suite, names in sorted(tests[clause].items()))
        cells = (clause, ", ".join(f"`{name}`" for name in sorted(code[clause])), held, str(len(cases[clause]) or ""))
        rows.append("".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n")
    named = {clause.rstrip(" ?") for clause in (*filter(tests.get, tests), *filter(cases.get, cases))}
    unheld = [clause for clause in sorted(code, key=order) if clause.rstrip(" ?") not in named]
    tail = "\nNamed in the code, and by no test or case of these: " + (", ".join(unheld) or "none") + ".\n"
    return HEAD + "".join(rows) + tail, len(rows)


def main(root, write):
    text, count = page(root)
    if count == 0:
        sys.exit(f"no clauses under {root}: wrong folder?")
    file = root / PAGE
    if write:
        file.write_text(text)
    elif not file.exists() or file.read_text() != text:
        sys.exit(f"{PAGE} is out of date: tests/lint/clauses.py . --write")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), sys.argv[2:] == ["--write"])
