# SPDX-License-Identifier: Apache-2.0
"""The console blocks of a page: what a reader pastes, and what the page says that it prints.

A block is fenced with ```console. Its lines are
    $ COMMAND      run; goes on in the next line after a backslash at the end
    ...            any number of lines
    anything else  printed by the commands above it, in this order; every number in it stands for any number
A comment <!-- not run: WHY --> in the line above a block keeps the test from running it; readers do not see it.
"""

import dataclasses
import re

FENCE = re.compile(r"^```(\w*)\s*$")
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)*")


@dataclasses.dataclass
class Command:
    text: str
    line: int
    output: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Block:
    line: int
    commands: list
    not_run: str = ""


def read_blocks(text):
    """The blocks of a page. Raises ValueError, with the line, where the page breaks a rule above."""
    blocks, language, body, why = [], None, [], ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if language is None:
            if fence:
                language, start, body = fence.group(1), number, []
            else:
                match = NOT_RUN.match(line)
                why = match.group(1) if match else ""
            continue
        if not fence:
            if language != "console" and line.startswith("$ "):
                raise ValueError(f"line {number}: a command in a block that is not fenced with ```console")
            body.append((number, line))
            continue
        if language == "console":
            blocks.append(Block(start, commands_of(body), why))
        language, why = None, ""
    return blocks


def commands_of(body):
    commands, goes_on = [], False
    for number, line in body:
        if goes_on:
            commands[-1].text += "\n" + line
        elif line.startswith("$ "):
            commands.append(Command(line[2:], number))
        elif line.strip():
            if not commands:
                raise ValueError(f"line {number}: output before any command")
            commands[-1].output.append(line)
        goes_on = line.endswith("\\") and (goes_on or line.startswith("$ "))
    return commands


def pattern(line):
    """A shown line as a regular expression: numbers are any numbers, spaces any spaces."""
    parts = []
    for word in line.split():
        at, text = 0, ""
        for match in NUMBER.finditer(word):
            text += re.escape(word[at:match.start()]) + f"(?:{NUMBER.pattern})"
            at = match.end()
        parts.append(text + re.escape(word[at:]))
    return re.compile(r"^\s*" + r"\s+".join(parts) + r"\s*$")


def missing_line(shown, printed):
    """The first shown line that is not among the printed ones in this order, or None."""
    rest = iter(printed)
    for line in shown:
        if line.strip() == "...":
            continue
        wanted = pattern(line)
        if not any(wanted.match(candidate) for candidate in rest):
            return line
    return None
