#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions of libc that libibverbs.so.1 stands in front of:  path_functions.py UROCE PATH_PROBE LIBRARY NM OLD_STAT

path_probe calls each of them and tells what it says. On a real tree it must say the same with and without us; on the
view the same as on a real copy of the view. Also when OLD_STAT is preloaded behind us. Exit status: 0, 1, or 2 = wrong
arguments.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

VIEW = "/sys/devices/virtual/uroce"
DEVICE = "uroce0/infiniband/uroce0"
NAMES = ["node_desc", "ports/1", "ports/1/state", "device", "device/vendor"]


def output(*command, preload=""):
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env={**os.environ, "LD_PRELOAD": preload}).stdout


def check_equal(what, left, right):
    assert left.count("\n") > 100, f"path_probe says next to nothing:\n{left}"
    for a, b in zip(left.splitlines(), right.splitlines()):
        assert a == b, f"{what}:\n  {a}\n  {b}"
    assert len(left.splitlines()) == len(right.splitlines()), what


def check_completeness(library, nm):
    """path_probe knows every function that the library exports without a version."""
    lines = output(nm, "-D", "--defined-only", "--with-symbol-versions", library).splitlines()
    symbols = [line.split()[1:] for line in lines if "@" not in line]
    names = [name for kind, name in symbols if kind != "A"]  # Not the names of versions.
    names = [name for name in names if not name.startswith("liburoce_")]  # For our own tools.
    assert len(names) > 50, names
    source = (pathlib.Path(__file__).parent / "path_probe.c").read_text()
    unknown = [name for name in names if not re.search(rf'\b{name}\(|"{name}"', source)]
    assert not unknown, f"path_probe.c does not call {unknown}"


def main(uroce, probe, library, nm, old_stat):
    check_completeness(library, nm)
    with tempfile.TemporaryDirectory(prefix="uroce-view-") as directory:
        output(uroce, "run", "--", "cp", "-a", VIEW, directory)
        copy = f"{directory}/uroce"
        assert pathlib.Path(f"{copy}/{DEVICE}/ports/1/gids/1").read_text().count(":") == 7
        real = output(probe, f"{copy}/{DEVICE}", *NAMES)
        for preload in ("", old_stat):
            behind = f", before {preload}" if preload else ""
            run = [uroce, "run", "--", probe]
            check_equal(f"a real tree, without and with uroce{behind}", real,
                        output(*run, f"{copy}/{DEVICE}", *NAMES, preload=preload))
            view = output(*run, f"{VIEW}/{DEVICE}", *NAMES, preload=preload)
            check_equal(f"a real tree and the view of the same contents{behind}", real.replace(copy, "BASE"),
                        view.replace(VIEW, "BASE"))


if __name__ == "__main__":
    if len(sys.argv) != 6:
        print(__doc__)
        sys.exit(2)
    for variable in [name for name in os.environ if name.startswith(("UROCE_", "LD_"))]:
        del os.environ[variable]
    os.environ["LC_ALL"] = "C"
    try:
        main(*sys.argv[1:])
    except AssertionError as error:
        print(f"FAILED: {error}")
        sys.exit(1)
    except subprocess.CalledProcessError as error:
        print(f"FAILED: {error}\n{error.stdout}\n{error.stderr}")
        sys.exit(1)
