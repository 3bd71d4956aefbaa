# SPDX-License-Identifier: Apache-2.0
"""Captures of actors, and what must be in the files afterwards: whole records, of everybody who could write."""

import os
import resource
import struct
import subprocess

from actors import Failure

SMALL = 64 << 10  # bytes that fit on the disk, or are allowed


class Capture:
    """One actor's, into a file of its own. `in_child` runs in the new process, before it becomes the actor."""
    in_child = None
    ends_early = False  # A process that opens a NIC afterwards hears so.

    def __init__(self, folder, name):
        self.file = folder / f"{name}.pcapng"
        self.setting = str(self.file)


class Shared(Capture):
    """Into the file of all the others of this kind."""

    def __init__(self, folder, name):
        super().__init__(folder, "shared")
        self.setting = f">>{self.file}"


class Full(Capture):
    """On a disk that is soon full."""
    ends_early = True

    def __init__(self, folder, name):
        disk = folder / f"{name}-disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "none", disk], check=True)
        super().__init__(disk, name)


class Limited(Capture):
    """Beyond a limit for the size of files."""
    ends_early = True

    def in_child(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))


class Left(Capture):
    """Into a pipe with a name, whose reader goes after a while."""
    ends_early = True

    def __init__(self, folder, name):
        super().__init__(folder, name)
        os.mkfifo(self.file)
        self.reader = subprocess.Popen(["head", "-c", str(SMALL), self.file], stdout=subprocess.DEVNULL)


KINDS = {"capture": Capture, "shared_capture": Shared, "full_disk": Full, "file_limit": Limited, "reader_leaves": Left}


def interfaces(file, may_be_torn):
    """How many a pcapng of one section has, whose records are whole."""
    data = file.read_bytes()
    count, at = 0, 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at) if at + 12 <= len(data) else (0, 0)
        is_whole = length >= 12 and at + length <= len(data)
        if not is_whole or struct.unpack_from("<I", data, at + length - 4)[0] != length:
            if may_be_torn:
                break
            raise Failure(f"{file.name}: no whole record at byte {at} of {len(data)}")
        count += kind == 1
        if kind == 6 and struct.unpack_from("<I", data, at + 8)[0] >= count:
            raise Failure(f"{file.name}: a packet of an interface that there is not")
        at += length
    return count


def judge(actors):
    """After the end of all `actors`."""
    for file in {actor.capture.file for actor in actors if actor.capture and not isinstance(actor.capture, Left)}:
        writers = [actor for actor in actors if actor.capture and actor.capture.file == file]
        ended = [actor for actor in writers if not actor.dead]  # They could close it.
        if not file.exists() and not ended:
            continue
        # A process that is cut off in mid-write leaves half a record, which the next writer removes, if there is one.
        count = interfaces(file, may_be_torn=any(actor.was_cut_off for actor in writers))
        if count < len(ended):
            raise Failure(f"{file.name}: {count} interfaces, and {len(ended)} captured into it to their end")


def clean_up(folder):
    for disk in folder.glob("*-disk"):
        subprocess.run(["umount", disk], check=True)
