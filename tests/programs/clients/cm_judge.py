# SPDX-License-Identifier: Apache-2.0
"""Counts the messages of connection management in a capture, and judges how the connections of a program went."""

import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "wire"))
from cm_talk import complaints, messages  # noqa: E402

# What may come again: nobody may be there, on a busy machine, when the first request comes; and for a process that has ended
# somebody else repeats what was not answered (docs/adr/0016).
MAY_COME_AGAIN = {"REQ", "SIDR_REQ", "DREQ", "DREP"}
NO_SUCH_SERVICE = 1  # status of SIDR_REP


def is_refused(path):
    """Whether there was nobody to connect to."""
    return any(said.name == "REJ" or said.get("status") == NO_SUCH_SERVICE for said in messages(path))


def is_answered(path):
    """Whether a server has taken one of the requests."""
    return any(said.name == "REP" for said in messages(path))


def judge(path, connections, datagrams=0, ends=True, ours=None):
    """Each of `connections` is asked for, answered and confirmed; it `ends` with a message. Each of `datagrams`, QPs found
    by SIDR, is asked for and answered. Nothing but MAY_COME_AGAIN is sent twice. What the address `ours` says is right;
    None: that cannot be told."""
    seen = collections.Counter()
    copies = collections.Counter()
    for said in messages(path):
        copies[(said.name, said.source, said.mad)] += 1
        if said.name in MAY_COME_AGAIN and copies[(said.name, said.source, said.mad)] > 1:
            continue
        seen["nobody there" if said.get("status") == NO_SUCH_SERVICE else said.name] += 1
    repeated = [mad[:40].hex() for (name, _, mad), count in copies.items() if count > 1 and name not in MAY_COME_AGAIN]
    assert not repeated, f"sent more than once: {repeated}"
    refused = {"REQ": seen["REJ"], "SIDR_REQ": seen["nobody there"]}
    wanted = {"REQ": connections, "REP": connections, "RTU": connections, "SIDR_REQ": datagrams, "SIDR_REP": datagrams}
    for name, count in wanted.items():
        assert seen[name] - refused.get(name, 0) == count, f"{dict(seen)}: {name}"
    if ends:
        assert seen["DREQ"] >= connections, f"{dict(seen)}: nobody disconnects"
    assert "?" not in seen and "MRA" not in seen, dict(seen)
    found = complaints(path, ours) if ours else []
    assert not found, found
    return seen
