#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Monitors keep files of sysfs open, and go back to their beginnings to learn what is so now:  read_again.py UROCE

Exit status: 0, 1, 77 = may make no network of its own, or 2 = wrong arguments.
"""

import ctypes
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import own_namespaces  # noqa: E402

STATE = "/sys/class/infiniband/uroce0/ports/1/state"
INSIDE_VIEW = "TEST_INSIDE_VIEW"

libc = ctypes.CDLL(None)  # With the functions that are preloaded.
libc.fopen.restype = ctypes.c_void_p


def by_lseek(fd):
    os.lseek(fd, 0, os.SEEK_SET)
    return os.read(fd, 100)


def by_pread(fd):
    return os.pread(fd, 100, 0)


def by_fortified_pread(fd):
    text = ctypes.create_string_buffer(100)
    libc.__pread_chk(fd, text, 100, ctypes.c_long(0), ctypes.c_size_t(100))
    return text.value


def stream_reader(go_back):
    def read(stream):
        go_back(stream)
        line = ctypes.create_string_buffer(100)
        libc.fread(line, 1, 100, stream)  # To the end, where libc forgets what it has.
        return line.value

    return read


def seek_with(name):
    return lambda stream: getattr(libc, name)(stream, ctypes.c_long(0), os.SEEK_SET)


def readers():
    for read in (by_lseek, by_pread, by_fortified_pread):
        yield read, os.open(STATE, os.O_RDONLY)
    for go_back in (libc.rewind, seek_with("fseek"), seek_with("fseeko"), seek_with("fseeko64")):
        yield stream_reader(go_back), ctypes.c_void_p(libc.fopen(STATE.encode(), b"r"))


def main(uroce):
    own_namespaces.enter_or_skip()
    if INSIDE_VIEW not in os.environ:
        os.environ[INSIDE_VIEW] = "yes"
        os.execv(uroce, [uroce, "run", "--", sys.executable, *sys.argv])
    opened = list(readers())
    for link, state in (("up", b"4: ACTIVE\n"), ("down", b"1: DOWN\n"), ("up", b"4: ACTIVE\n")):
        subprocess.run(["ip", "link", "set", "lo", link], check=True)
        said = [read(file) for read, file in opened]
        assert said == [state] * len(opened), f"the link is {link}: {said}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__)
        sys.exit(2)
    main(sys.argv[1])
