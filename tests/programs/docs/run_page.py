#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the console blocks of a page of the documentation as a reader would paste them.

    run_page.py SOURCE_DIR BUILD_DIR PAGE     e.g. . build/release docs/faults.md

The blocks of a page are pasted into one shell after another: what a block exports holds in the next. What a block has
put into the background ends with the block. Every command must end with status 0, also one in the background if it has
ended by itself, and must print what the page shows (console_blocks.py says how that is compared).

Each block runs in a directory that looks like a clone with build/release in it, and in namespaces of its own for
network and processes. Exit status: 0, 1, or 77 where such namespaces can't be had.
"""

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

from console_blocks import missing_line, read_blocks

BLOCK_TIMEOUT = 120  # seconds; idle machines need 10 at most
SKIPPED = 77

# What surrounds the commands of a block. fd 3 has the statuses; jobs in the background get a moment to end by themselves.
PROLOGUE = """\
[ -e {state} ] && . {state}
ip link set lo up
set -m
jobs_=()
"""
AFTER_COMMAND = """
status_=$?; echo "{line} $status_" >&3
"""
AFTER_JOB = """
jobs_+=("$!:{line}"); echo "{line} 0" >&3
"""
EPILOGUE = """
export -p >{state}
for job_ in "${{jobs_[@]}}"; do
  for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "${{job_%:*}}" 2>/dev/null || break; sleep 0.1; done
  kill -0 "${{job_%:*}}" 2>/dev/null && continue
  wait "${{job_%:*}}"; status_=$?
  case $status_ in 130 | 143) status_=0 ;; esac  # The block itself has stopped it.
  echo "${{job_#*:}} $status_" >&3
done
"""


def namespaces():
    """The command that gives a block a network and processes of its own, or None."""
    for user in ([] if os.geteuid() == 0 else None, ["--user", "--map-root-user"]):
        if user is None:
            continue
        command = ["unshare", *user, "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run([*command, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return command
    return None


def look_like_a_clone(directory, source, build):
    for entry in source.iterdir():
        if entry.name != "build":
            (directory / entry.name).symlink_to(entry)
    (directory / "build" / "release").mkdir(parents=True)
    for part in ("bin", "lib"):  # Not all of it: nothing is to be configured or built anew through a link.
        (directory / "build" / "release" / part).symlink_to(build / part)


def script_of(block, state):
    text = PROLOGUE.format(state=shlex.quote(str(state)))
    for command in block.commands:
        background = command.text.split("#")[0].rstrip().endswith("&")
        text += f"printf '\\n@{command.line}\\n'\n{command.text}"
        text += (AFTER_JOB if background else AFTER_COMMAND).format(line=command.line)
    return text + EPILOGUE.format(state=shlex.quote(str(state)))


def run_block(block, launcher, directory, state):
    """What is wrong with the block, as lines; none when it does what it says."""
    script, statuses = directory / ".block.sh", directory / ".statuses"
    script.write_text(script_of(block, state))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UROCE_")}
    with open(directory / ".output", "w+") as output, open(statuses, "w") as status_file:
        process = subprocess.Popen([*launcher, "bash", "-c", f"exec bash {shlex.quote(str(script))} 3>&{status_file.fileno()}"],
                                   cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, pass_fds=[status_file.fileno()])
        try:
            process.wait(BLOCK_TIMEOUT)
            problems = []
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            problems = [f"line {block.line}: the block did not end within {BLOCK_TIMEOUT} s"]
    printed = (directory / ".output").read_text(errors="replace").splitlines()
    ended = [line.split() for line in statuses.read_text().splitlines()]
    problems += [f"line {line}: exit status {status}" for line, status in ended if status != "0"]
    for command in block.commands:
        mark = f"@{command.line}"
        own = printed[printed.index(mark) + 1:] if mark in printed else []
        missing = missing_line(command.output, own)
        if missing is not None:
            problems.append(f"line {command.line}: did not print: {missing.strip()}")
    return [*problems, *(f"    {line}" for line in printed)] if problems else []


def main(source, build, page):
    launcher = namespaces()
    if launcher is None:
        print("skipped: no namespaces here (unshare)")
        return SKIPPED
    try:
        blocks = read_blocks((source / page).read_text())
    except ValueError as error:
        print(f"{page}: {error}")
        return 1
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="uroce-docs-") as temporary:
        directory = pathlib.Path(temporary) / "clone"
        directory.mkdir()
        look_like_a_clone(directory, source, build)
        for block in blocks:
            if block.not_run:
                print(f"not run  {page}:{block.line}: {block.not_run}")
                continue
            began = time.monotonic()
            problems = run_block(block, launcher, directory, pathlib.Path(temporary) / "state")
            print(f"{'WRONG' if problems else 'ok':8} {page}:{block.line}: {len(block.commands)} commands, "
                  f"{time.monotonic() - began:.1f} s")
            print("".join(f"  {line}\n" for line in problems), end="")
            wrong += bool(problems)
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]))
