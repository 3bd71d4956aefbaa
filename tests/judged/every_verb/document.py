#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/verbs.md from the lists of verbs/ibverbs and what the device says of itself:
   document.py VERBS_FACTS [--check]

Prints the page; with --check, fails when docs/verbs.md is another.
"""

import collections
import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
IBVERBS = ROOT / "verbs/ibverbs/catalogue"
PAGE = ROOT / "docs/verbs.md"

HEAD = """# Verbs

This page lists what `libibverbs.so.1` of this build offers. Our own tools use a part of it, `uroce_verbs()`.

`tests/judged/every_verb/document.py` prints this page from the lists of functions (`verbs/ibverbs/catalogue/functions*.def`, `slots.def`), the remarks in
`support.def`, and the attributes of the device. `ctest -L every_verb` fails when
the page is out of date. It also calls every function and every verb, with valid and with invalid arguments, and fails when one crashes
or does not do what this page says. The behaviour of the verbs, compared with the specification and Soft-RoCE: [conformance.md](conformance.md).

The library has all public symbols under the versions of rdma-core, IBVERBS_1.0 to 1.18. The private nodes of all series of
rdma-core (IBVERBS_PRIVATE_25 to 65) have the symbols that its other libraries (libmlx5, libefa, ...) need to load. So programs linked against
rdma-core 28 to 65 find all their symbols. A function that is not offered returns EOPNOTSUPP, or NULL with that errno.
"""


def rows(file):
    """The rows of a .def file: (macro, arguments as one string)."""
    for line in (IBVERBS / file).read_text().splitlines():
        match = re.fullmatch(r"(UROCE_[A-Z]+)\((.*)\)", line)
        if match:
            yield match[1], match[2]


def functions():
    """{version: [names]} in order of the versions."""
    found = collections.defaultdict(list)
    for file in ("functions.def", "functions_extra.def", "functions_newer.def"):
        for _, row in rows(file):
            name = re.match(r"[^,]*, ([a-z_0-9]+), ", row)[1]
            found[re.search(r'"IBVERBS_1\.(\d+)"$', row)[1]].append(name)
    return {f"IBVERBS_1.{minor}": found[minor] for minor in sorted(found, key=int)}


def remarks():
    """{name: (macro, text)}"""
    found = {}
    for macro, row in rows("support.def"):
        name, text = re.fullmatch(r'([a-z_0-9]+), "(.*)"', row).groups()
        found[name] = (macro, text)
    return found


def support(name, known):
    macro, text = known.get(name, ("", ""))
    return {"UROCE_NOT": "not", "UROCE_PARTLY": "partly"}.get(macro, "yes"), text


def table(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)] +
                     ["| " + " | ".join(line) + " |" for line in lines]) + "\n"


def facts(program):
    output = subprocess.run([program], stdout=subprocess.PIPE, check=True, text=True).stdout
    return [line.split("\t") for line in output.splitlines()]


def page(program):
    known = remarks()
    seen = facts(program)
    text = [HEAD, "## Functions\n"]
    for version, names in functions().items():
        text.append(f"### {version}\n")
        text.append(table(("function", "offered", "remark"),
                          [(f"`{name}`", *support(name, known)) for name in names]))

    text.append("## Verbs behind a context\n\nInline functions of `<infiniband/verbs.h>`, which call through `ibv_context` and "
                "`verbs_context`.\n")
    text.append(table(("verb", "offered", "remark"),
                      [(f"`{verb}`", support(verb, known)[0] if there == "yes" else "not", support(verb, known)[1])
                       for kind, verb, there in (f for f in seen if f[0] == "slot")]))
    text.append("`ibv_wr_start` ... `ibv_wr_complete` work on QPs that were created with `send_ops_flags`; `ibv_wr_complete`\n"
                "reports the first error, and then nothing of the list is posted. `ibv_start_poll`, `ibv_next_poll`, `ibv_end_poll` and all\n"
                "`ibv_wc_read_*` work on extended CQs; time stamps are nanoseconds of CLOCK_MONOTONIC and of CLOCK_REALTIME.\n")

    text.append("## QP types and operations\n")
    operations = collections.defaultdict(dict)
    for fact in seen:
        if fact[0] == "op":
            operations[fact[2]][fact[1]] = fact[3]
    text.append(table(("operation", "RC", "UC", "UD"),
                      [(name, *(of_type[t] if of_type[t] == "yes" else "-" for t in ("RC", "UC", "UD")))
                       for name, of_type in operations.items()]))

    text.append("## Capabilities\n\nThese values are returned by `ibv_query_device_ex`; 0 means not offered.\n")
    text.append(table(("attribute", "value"), [(f"`{f[1]}`", f[2]) for f in seen if f[0] == "cap"]))

    text.append("## rdma-core's own tests\n\nResults per class of pyverbs, and why tests are skipped: [pyverbs.md](pyverbs.md). "
                "Programs that run:\n[clients.md](clients.md).\n")
    return "\n".join(text)


def main():
    printed = page(sys.argv[1])
    if "--check" not in sys.argv:
        print(printed, end="")
        return 0
    committed = PAGE.read_text()
    if committed == printed:
        return 0
    sys.stdout.writelines(difflib.unified_diff(committed.splitlines(True), printed.splitlines(True), "docs/verbs.md",
                                               "what it should be"))
    print("docs/verbs.md is out of date: tests/judged/every_verb/document.py VERBS_FACTS > docs/verbs.md")
    return 1


if __name__ == "__main__":
    sys.exit(main())
