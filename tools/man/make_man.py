#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the manual page of a program from what it prints for --help and --version.

    make_man.py PROGRAM OUT.1 "one line about it"

The help is the only source, so that a page can't contradict its program. Its parts are known by their form: lines of
options (two spaces, then a name), headings (`Device and peer:`), "Usage:", and free text, which is kept as it is.
"""

import os
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"^  (\S.*?)(?:\s{2,}(\S.*))?$")
HEADING = re.compile(r"^([A-Z][^.]*):$")


def printed(*command):
    # Without UROCE_*, no default in the page is one of this machine's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UROCE_")}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def roff(text):
    """`text` as troff prints it: its own characters escaped."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def options_as_roff(lines):
    """The lines of a help, without its usage."""
    literal = False
    for line in lines:
        heading, entry = HEADING.match(line), ENTRY.match(line)
        is_literal = not heading and not (entry and not line.startswith("   "))
        is_text = bool(re.match(r"^\s{6,}\S", line))
        if is_text and not literal:  # Goes on with an entry: its name was too long for one line.
            yield roff(line.strip())
            continue
        if not line.strip():
            if literal:
                yield ".fi"
            literal = False
            continue
        if literal != is_literal:
            yield ".PP\n.nf" if is_literal else ".fi"
            literal = is_literal
        if heading:
            yield f'.SS "{roff(heading.group(1))}"'
        elif is_literal:
            yield roff(line)
        else:
            yield f".TP\n.B {roff(entry.group(1))}"
            if entry.group(2):
                yield roff(entry.group(2))
    if literal:
        yield ".fi"


def parts_of(help_text):
    """What stands before the usage, the usage, and what stands behind it."""
    lines = help_text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Usage: "))
    about = "\n".join(line for line in lines[:at] if line.strip())
    return about, lines[at].removeprefix("Usage: "), lines[at + 1:]


def paragraph(text):
    """One line is filled by troff; several stand as they are."""
    return [".nf", roff(text), ".fi"] if "\n" in text else [roff(text)]


def subcommands_of(lines):
    """What the help lists below "Subcommands:"."""
    below = False
    for line in lines:
        below = line == "Subcommands:" or (below and bool(line.strip()))
        if below and (entry := re.match(r"^  ([a-z]\S*)", line)):
            yield entry.group(1)


def page(program, purpose):
    name = pathlib.Path(program).name
    version = printed(program, "--version").split()[1]
    about, usage, rest = parts_of(printed(program, "--help"))
    arguments = usage.split(" ", 1)[1]
    text = [f'.TH {name.upper().replace("-", chr(92) + "-")} 1 "" "uroce {version}" "User commands"',
            ".SH NAME", rf"{roff(name)} \- {roff(purpose)}",
            ".SH SYNOPSIS", rf".B {roff(name)}" + f"\n{roff(arguments)}"]
    text += [".SH DESCRIPTION", *paragraph(about), ".SH OPTIONS", *options_as_roff(rest)]
    for subcommand in list(subcommands_of(rest)):
        about, usage, rest = parts_of(printed(program, subcommand, "--help"))
        arguments = usage.split(" ", 2)[2]
        text += [f'.SH "{roff(f"{name} {subcommand}").upper()}"', ".PP", rf".B {roff(f'{name} {subcommand}')}",
                 roff(arguments), ".PP", roff(about), *options_as_roff(rest)]
    if any("docs/" in line for line in text):
        text += [".SH SEE ALSO", roff("Pages such as docs/faults.md: in share/doc/uroce of the installation, e.g. "
                                      "/usr/share/doc/uroce/docs/faults.md.")]
    return "\n".join([*text, ""])


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    pathlib.Path(sys.argv[2]).write_text(page(sys.argv[1], sys.argv[3]))
