#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bad_wire.py [SPECIFICATION]: a wire with faults between the host and the lab's guest, until it is interrupted.

    sudo tests/programs/interop/lab hostrun tests/programs/interop/bad_wire.py 'seed=7,drop=1%,delay=ack#3:200'

The host's addresses move from the guest's tap device to one of this program's own, and back when it ends; what the one side
sends is read, treated as the specification says (wire_faults.py), and passed on to the other side.
"""

import contextlib
import fcntl
import os
import pathlib
import select
import socket
import struct
import subprocess
import sys
import threading
import time

from wire_faults import WireFaults

GUEST_DEVICE, HOST_DEVICE, MTU = "tap0", "wire0", 9000
HOST_ADDRESSES = ("10.77.0.1/24", "fd77::1/64")
TO_GUEST, TO_HOST = "to-guest", "to-host"
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
ETH_P_ALL, SOL_PACKET, PACKET_IGNORE_OUTGOING, SO_RCVBUFFORCE = 3, 263, 23, 33
BATCH = 64  # frames of one direction before the other one has its turn


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def set_ip_addresses(device):
    for address in HOST_ADDRESSES:
        ip("address", "replace", address, "dev", device, *(["nodad"] if ":" in address else []))


class BadWire:
    """Forwards while it is entered; arm() sets the faults, disarm() ends them and returns their WireFaults object."""

    def __init__(self, guest_device=GUEST_DEVICE):
        self.guest_device = guest_device
        self.lock = threading.Lock()
        self.faults = WireFaults()
        self.ports = {}
        self.wake_reader, self.wake_writer = os.pipe()
        self.thread = threading.Thread(target=self._forward)

    def __enter__(self):
        # A tap device without offloads: what is read from it has all its checksums.
        self.tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self.tap, TUNSETIFF, struct.pack("16sH22x", HOST_DEVICE.encode(), IFF_TAP | IFF_NO_PI))
        self.packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        self.packets.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self.packets.bind((self.guest_device, ETH_P_ALL))
        self.ports = {TO_GUEST: (self.tap, self.packets.fileno()), TO_HOST: (self.packets.fileno(), self.tap)}
        # The guest's device keeps no address, and must not answer for those of the new one.
        ip("address", "flush", "dev", self.guest_device)
        pathlib.Path(f"/proc/sys/net/ipv4/conf/{self.guest_device}/arp_ignore").write_text("8", encoding="ascii")
        pathlib.Path(f"/proc/sys/net/ipv6/conf/{self.guest_device}/disable_ipv6").write_text("1", encoding="ascii")
        pathlib.Path(f"/proc/sys/net/ipv6/conf/{HOST_DEVICE}/accept_ra").write_text("0", encoding="ascii")
        pathlib.Path(f"/proc/sys/net/ipv6/conf/{HOST_DEVICE}/addr_gen_mode").write_text("1", encoding="ascii")
        ip("link", "set", HOST_DEVICE, "mtu", str(MTU), "txqueuelen", "10000", "up")
        set_ip_addresses(HOST_DEVICE)
        self.thread.start()
        return self

    def __exit__(self, *_):
        os.write(self.wake_writer, b"q")
        self.thread.join()
        for port in (self.tap, self.wake_reader, self.wake_writer):
            os.close(port)
        self.packets.close()
        pathlib.Path(f"/proc/sys/net/ipv4/conf/{self.guest_device}/arp_ignore").write_text("0", encoding="ascii")
        pathlib.Path(f"/proc/sys/net/ipv6/conf/{self.guest_device}/disable_ipv6").write_text("0", encoding="ascii")
        set_ip_addresses(self.guest_device)

    def arm(self, specification):
        with self.lock:
            self.faults = WireFaults(specification)

    def wait_until_idle(self):
        """Until the wire holds nothing back."""
        while True:
            with self.lock:
                due = self.faults.next_due()
            if due is None:
                return
            time.sleep(max(0, due - time.monotonic()) + 0.01)

    def disarm(self):
        with self.lock:
            ended, self.faults = self.faults, WireFaults()
            for direction, frame in ended.due(float("inf")):
                self._pass_on(direction, frame)
        return ended

    def _pass_on(self, direction, frame):
        with contextlib.suppress(BlockingIOError, OSError):  # a full queue drops, as wires do
            os.write(self.ports[direction][1], frame)

    def _forward(self):
        directions = {read: direction for direction, (read, _) in self.ports.items()}
        poll = select.poll()
        for port in (*directions, self.wake_reader):
            poll.register(port, select.POLLIN)
        wait = None
        while True:
            for port, _ in poll.poll(wait):
                if port == self.wake_reader:
                    return
                with self.lock:
                    self._move(port, directions[port])
            with self.lock:
                now = time.monotonic()
                for direction, frame in self.faults.due(now):
                    self._pass_on(direction, frame)
                due = self.faults.next_due()
                wait = None if due is None else max(0, (due - now) * 1000 + 0.5)

    def _move(self, port, direction):
        now = time.monotonic()
        for _ in range(BATCH):
            try:
                frame = os.read(port, MTU + 64)
            except BlockingIOError:
                return
            for passed in self.faults.take(direction, frame, now):
                self._pass_on(direction, passed)


def main():
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    with BadWire() as wire:
        wire.arm(sys.argv[1] if len(sys.argv) > 1 else "")
        print("forwarding; ^C ends it", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
        ended = wire.disarm()
    print("\n".join(ended.log))
    print(", ".join(f"{action} {count}" for action, count in ended.counts.items()))


if __name__ == "__main__":
    main()
