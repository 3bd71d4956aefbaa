#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rdma-core's own tests of the verbs on the emulated NIC, with Debian's python3-pyverbs.

    pyverbs_tests.py BIN_DIR [MODULE...]     runs them and compares with pyverbs_tests.json, where what passed before is recorded
    pyverbs_tests.py BIN_DIR --write         runs them all and writes pyverbs_tests.json and docs/pyverbs.md anew
    pyverbs_tests.py --table                 prints pyverbs_tests.json as a table

The tests are those that come with the package (equal to tag v44.0 of rdma-core's); a copy in a temporary directory is
run. Each module is a process of its own, so that a crash ends no other's. Exit status: 0, 1 (a test fails or crashes, or
passes no more), or 77 = skipped.
"""

import collections
import gzip
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import run_client

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / "pyverbs_tests.json"
DOCUMENT = HERE.parents[2] / "docs" / "pyverbs.md"
ABOUT = """# rdma-core's tests on uroce

Results of the 170 Python tests of rdma-core 44 that are not for one vendor's cards, with Debian's python3-pyverbs and our
libibverbs.so.1. `tests/programs/clients/pyverbs_tests.py BIN_DIR --write` writes this page. The test `clients.pyverbs` fails when a test that passed
now fails. The 102 tests for mlx5 and EFA cards and the one for CUDA skip themselves. The reasons are printed by the tests.

rdma-core's newest tests (its head of August 2026, library and pyverbs built from it, run by hand on our libibverbs.so.1): 151 ok, 80 skipped,
0 failed, with `--gid 1` and without. That includes ATOMIC WRITE, FLUSH, and the 11 tests of the connection manager with the newer librdmacm.

* XRC, raw packets (QP type 8), device memory, tag matching, importing a device of another process: uroce has none of these
* dmabuf and huge pages: the machine must provide them

"""
PACKAGE = "python3-pyverbs"
PYTHON = "/usr/bin/python3"  # Debian's, which pyverbs was built for
INSTALLED_TESTS = "usr/share/doc/rdma-core/tests"
OPTIONS = ["--dev", "uroce0", "--port", "1", "--gid", "1"]  # GID 1: the IPv4 address
TIMEOUT = 120  # seconds that no module may need
# These ask for the vendor's device first of all, and skip themselves.
OF_VENDORS = ("test_mlx5", "test_efa", "test_cuda")


def copy_tests(directory):
    """Puts the tests into directory/tests. False: they are not to be had."""
    installed = pathlib.Path("/") / INSTALLED_TESTS
    if not installed.is_dir():  # Containers often install packages without their documentation.
        fetched = subprocess.run(["apt-get", "download", "-qq", PACKAGE], cwd=directory, capture_output=True)
        packages = list(directory.glob(f"{PACKAGE}_*.deb"))
        if fetched.returncode != 0 or not packages:
            return False
        subprocess.run(["dpkg-deb", "-x", packages[0], directory / "package"], check=True)
        installed = directory / "package" / INSTALLED_TESTS
    shutil.copytree(installed, directory / "tests")
    for path in (directory / "tests").glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
    return True


def outcomes(lines):
    """Test id: (outcome, text). One that began and did not end has crashed."""
    found = {}
    for line in lines:
        entry = json.loads(line)
        before = found.get(entry["test"], ("start",))[0]
        if before in ("start", "skip"):  # A test of several parts is as bad as its first bad one, and runs if one does.
            found[entry["test"]] = (entry["outcome"], entry["text"])
    return {test: ("crash" if what == "start" else what, text) for test, (what, text) in found.items()}


def run_module(binaries, directory, module, capture):
    """The outcomes of one module's tests, and how its process ended (a text, empty if it ended well)."""
    run_client.new_network()  # Other tests may have the address meanwhile.
    results, log = directory / f"{module}.results", directory / f"{module}.log"
    results.touch()
    command = [binaries / "uroce", "run", "--addr", run_client.SERVER, "--pcap", capture, "--",
               PYTHON, HERE / "pyverbs_driver.py", results, module, "--", *OPTIONS]
    process = run_client.start(list(map(str, command)), log, cwd=directory)
    try:
        status = process.wait(TIMEOUT)
        ended = f"ended with status {status}" if status != 0 else ""
    except subprocess.TimeoutExpired:
        ended = f"hung for {TIMEOUT} s"
    finally:
        run_client.end(process)
    return outcomes(results.read_text().splitlines()), f"{ended}\n{log.read_text()}" if ended else ""


def summary(results):
    """Per class: how many tests ended how, and why those that were skipped."""
    classes = collections.defaultdict(lambda: {"ok": 0, "fail": 0, "crash": 0, "skip": collections.Counter()})
    for test, (what, text) in results.items():
        of = classes[".".join(test.split(".")[-3:-1])]
        if what == "skip":
            of["skip"][text] += 1
        else:
            of[what] += 1
    return {name: {**of, "skip": dict(sorted(of["skip"].items()))} for name, of in sorted(classes.items())}


def total(classes, what):
    return sum(sum(of["skip"].values()) if what == "skip" else of[what] for of in classes.values())


def complaints(classes, record):
    """What is worse than recorded."""
    found = []
    for name, of in classes.items():
        before = record.get(name, {"ok": 0, "fail": 0, "crash": 0})
        found += [f"{name}: {of[what]} {what}" for what in ("fail", "crash") if of[what] > before[what]]
        if of["ok"] < before["ok"]:
            found.append(f"{name}: {of['ok']} ok, and it was {before['ok']}")
        elif of["ok"] > before["ok"]:
            print(f"better than recorded: {name}: {of['ok']} ok, and it was {before['ok']}; record it with --write")
    return found


def table(classes):
    lines = ["| class | ok | skipped | failed | why skipped |", "| --- | --- | --- | --- | --- |"]
    for name, of in classes.items():
        reasons = "; ".join(f"{count} × {reason}" for reason, count in of["skip"].items())
        lines.append(f"| {name} | {of['ok']} | {sum(of['skip'].values())} | {of['fail'] + of['crash']} | {reasons} |")
    return "\n".join([*lines, "| all | " + " | ".join(str(total(classes, w)) for w in ("ok", "skip", "fail")) + " | |"])


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def main():
    if sys.argv[1:] == ["--table"]:
        print(table(json.loads(RECORD.read_text())))
        return 0
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binaries, chosen = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    if subprocess.run([PYTHON, "-c", "import pyverbs.device"], capture_output=True).returncode != 0:
        skip(f"{PACKAGE} is not installed")
    run_client.own_namespaces.enter_or_skip("")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="uroce-pyverbs-"))
    try:
        if not copy_tests(directory):
            skip(f"the tests of {PACKAGE} are not installed and cannot be downloaded")
        modules = sorted(path.stem for path in (directory / "tests").glob("test_*.py"))
        modules = [name for name in modules if not name.startswith(OF_VENDORS)]
        results, captures, ended = {}, [], []
        for module in modules if chosen in ([], ["--write"]) else chosen:
            capture = directory / f"{module}.pcap"
            of_module, end = run_module(binaries, directory, module, capture)
            results.update(of_module)
            ended += [f"{module}: {end}"] if end else []
            captures += [capture] if capture.exists() and capture.stat().st_size > run_client.EMPTY_CAPTURE else []
        classes = summary(results)
        for test, (what, text) in results.items():
            if what in ("fail", "crash"):
                print(f"{what.upper()} {test}\n{text}")
        if chosen == ["--write"]:
            RECORD.write_text(json.dumps(classes, indent=1) + "\n")
            DOCUMENT.write_text(f"{ABOUT}{table(classes)}\n")
        record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        bad = complaints(classes, record) + ended + run_client.check_captures(captures)
        print(table(classes))
    finally:
        shutil.rmtree(directory)
    print("FAILED: " + "; ".join(bad) if bad else "all as recorded, or better")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
