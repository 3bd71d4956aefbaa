#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A dump of RDMA netlink is complete when its socket has room for a part of it only:  netlink_dump.py UROCE

Exit status: 0, 1, or 2 = wrong arguments.
"""

import ctypes
import os
import select
import socket
import struct
import sys

NETLINK_RDMA, NLMSG_DONE = 20, 3
GET = (5 << 10) + 1  # Of RDMA_NL_NLDEV: the devices.
REQUEST_DUMP = 0x301
DEVICES = 16
ROOM = 4096  # Of a reader.
INSIDE_VIEW = "TEST_INSIDE_VIEW"

libc = ctypes.CDLL(None)  # With the functions that are preloaded.


def by_libc(name, *more):
    def read(asked):
        room = ctypes.create_string_buffer(ROOM)
        got = getattr(libc, name)(asked.fileno(), room, ROOM, *more)
        return room.raw[:max(got, 0)]

    return read


READERS = [
    lambda asked: asked.recv(ROOM),
    lambda asked: asked.recvfrom(ROOM)[0],
    lambda asked: asked.recvmsg(ROOM)[0],
    lambda asked: os.read(asked.fileno(), ROOM),
    by_libc("__read_chk", ROOM),
    by_libc("__recv_chk", ROOM, 0),
    by_libc("__recvfrom_chk", ROOM, 0, None, None),
]


def ask(sequence, asked=None):
    """A socket that never waits, with the smallest buffer that there is, which has asked for a dump."""
    if asked is None:
        asked = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, NETLINK_RDMA)
        asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    asked.sendto(struct.pack("=IHHII", 16, GET, REQUEST_DUMP, sequence, 0), (0, 0))
    return asked


def listen(asked, read=READERS[0]):
    """Types, sequence numbers and devices of what is there to read."""
    heard = []
    poll = select.poll()
    poll.register(asked, select.POLLIN)
    while poll.poll(0):
        # A header, and the first attribute, which is the number. (DONE is shorter.)
        _, kind, _, sequence, _, _, _, device = struct.unpack_from("=IHHIIHHI", read(asked) + bytes(4))
        heard.append((kind, sequence, device))
    return heard


def whole(sequence):
    return [(GET, sequence, device) for device in range(DEVICES)] + [(NLMSG_DONE, sequence, 0)]


def expect(what, heard, wanted):
    if heard != wanted:
        sys.exit(f"FAILED: {what}: {len(heard)} messages, not {len(wanted)}: {heard}")


def main(uroce):
    if INSIDE_VIEW not in os.environ:
        os.environ[INSIDE_VIEW] = "yes"
        os.execv(uroce, [uroce, "run", "--devices", str(DEVICES), "--", sys.executable, *sys.argv])
    for number, read in enumerate(READERS):
        with ask(number) as asked:
            expect(f"reader {number}", listen(asked, read), whole(number))

    with ask(1) as asked, ask(2) as other:
        expect("another socket", listen(other), whole(2))
        expect("its neighbour", listen(asked), whole(1))

    with ask(1) as asked:
        asked.recv(ROOM)
        copy = asked.dup()
    with copy:
        expect("a copy", listen(copy), whole(1)[1:])

    with ask(1) as asked:
        ask(2, asked)
        expect("two requests", listen(asked), whole(1) + whole(2))

    with ask(1) as asked:
        port = asked.getsockname()
    with ask(2) as asked:
        assert asked.getsockname() == port  # The kernel gives it again.
        expect("after a closed socket", listen(asked), whole(2))

    with ask(1) as asked:
        child = os.fork()
        if child == 0:
            expect("a child", listen(asked), whole(1))
            return
        _, status = os.waitpid(child, 0)
        expect("the child's status", [status], [0])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__)
        sys.exit(2)
    main(sys.argv[1])
