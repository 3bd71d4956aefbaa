#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kernel_disk.py [--bin DIR] [--keep DIR] [PATTERN...]: a disk of Linux's, over iSER, that Debian's tgtd serves on uroce.

The kernel of the lab's guest is the initiator (ib_iser, on Soft-RoCE). It registers memory by work requests and grants it to
tgtd, which runs on the emulated NIC and moves the data with RDMA READ and WRITE. What is written has to be in the file behind
the disk, and has to be read back, all packets well, with faults, and when tgtd is killed and started again. Options and exit
status are those of rxe_pair.py.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import rxe_pair  # First: it says where the other folders' modules are.
import run_client
import run_pair
from guest_command import GuestCommand
from rxe_pair import HOST, OUR_ADDRESSES, SHARE

TARGET, INITIATOR = "iqn.2026-01.org.uroce:disk", "iqn.2026-01.org.uroce:guest"
DATA = SHARE / "disk.data"  # /lab/disk.data in the guest
FAULTS = ["loss=1%", "dup=1%", "reorder=1%:3"]
START = f"""
command -v iscsid >/dev/null || {{ echo "this lab is too old: remove its folder build, then run: lab build"; exit 1; }}
modprobe -a ib_iser sd_mod
echo InitiatorName={INITIATOR} >/etc/iscsi/initiatorname.iscsi
mkdir -p /run/lock/iscsi
pidof iscsid >/dev/null || iscsid
iscsiadm -m iface -I iser | grep -q iser
iscsiadm -m discovery -t sendtargets -p {HOST[4]} -I iser
iscsiadm -m node -T {TARGET} --login
for _ in $(seq 100); do [ ! -b /dev/sda ] || exit 0; sleep 0.1; done
exit 1"""
WRITE = "dd if=/lab/disk.data of=/dev/sda bs=128k oflag=direct status=none"
READ = "dd if=/dev/sda bs=64k iflag=direct status=none count={} | cmp - /lab/disk.data"
STOP = f"iscsiadm -m node -T {TARGET} --logout"


def in_guest(command, timeout=90):
    status, output = GuestCommand(command, timeout).finish()
    run_pair.check(status == 0, f"in the guest: status {status}: {command}\n{output}")


class Target:
    """tgtd, with a disk in the file `disk`."""

    def __init__(self, disk, capture, faults=()):
        self.port = str(20000 + os.getpid() % 10000)  # tgtadm finds it at /run/tgtd/socket.PORT.
        run = [run_pair.BIN / "uroce", "run", "--addr", OUR_ADDRESSES, "--pcap", capture, *faults, "--"]
        self.log = tempfile.NamedTemporaryFile(mode="r")
        self.process = run_client.start([*run, "tgtd", "--foreground", "--control-port", self.port], self.log.name)
        try:
            self.serve(disk)
        except (AssertionError, subprocess.CalledProcessError) as why:
            self.kill()
            raise AssertionError(f"{why}\n{self.log.read()}") from None

    def serve(self, disk):
        run_client.wait_for(self.process, "tgtd does not answer", lambda: self.admin("show", check=False) == 0)
        self.admin("new", "--tid", "1", "--targetname", TARGET)
        self.admin("new", "--tid", "1", "--lun", "1", "--backing-store", disk, mode="logicalunit")
        # Debian's tgtd lets nobody in over iSER whose address and name it does not have.
        self.admin("bind", "--tid", "1", "--initiator-address", "ALL")
        self.admin("bind", "--tid", "1", "--initiator-name", INITIATOR)

    def admin(self, operation, *arguments, mode="target", check=True):
        command = ["tgtadm", "--control-port", self.port, "--lld", "iser", "--op", operation, "--mode", mode, *arguments]
        return subprocess.run(command, check=check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

    def kill(self):
        run_client.end(self.process)
        for left in pathlib.Path("/run/tgtd").glob(f"socket.{self.port}*"):
            left.unlink()


class Disk:
    family = 4

    def __init__(self, name, mib, faults=()):
        self.name, self.size, self.faults = f"target.ipv4.iser.{name}", mib << 20, faults

    def run(self, capture):
        """Returns a few words; raises AssertionError."""
        DATA.write_bytes(os.urandom(self.size))
        with tempfile.TemporaryDirectory() as folder:
            disk = pathlib.Path(folder) / "disk"
            with open(disk, "wb") as file:
                file.truncate(64 << 20)
            target = Target(disk, capture, self.faults)
            try:
                in_guest(START)
                in_guest(WRITE)
                with open(disk, "rb") as file:
                    run_pair.check(file.read(self.size) == DATA.read_bytes(), "the file behind the disk has not what was written")
                target, words = self.read(target, disk, capture)
                in_guest(STOP)
            finally:
                target.kill()
                DATA.unlink()
        return words

    def read(self, target, _disk, _capture):
        in_guest(READ.format(self.size >> 16))
        return target, f"{self.size >> 20} MiB written and read"


class Killed(Disk):
    """Who reads waits until there is another tgtd."""

    def read(self, target, disk, capture):
        reading = GuestCommand(f"dd if=/dev/sda of=/dev/null bs=64k iflag=direct status=none count=1; echo reads; "
                               f"{READ.format(self.size >> 16)}", 120)
        run_pair.check(reading.wait_for("reads"), f"the guest does not read: {reading.output.decode()}")
        target.kill()  # It reads some seconds.
        began = time.monotonic()
        target = Target(disk, capture + ".second")
        status, output = reading.finish()
        run_pair.check(status == 0, f"status {status}: {output}")
        return target, f"read on after {time.monotonic() - began:.1f} s"


def cases():
    yield Disk("plain", 16)
    yield Disk("faults", 4, ["--faults", ",".join([*FAULTS, *("rx." + fault for fault in FAULTS)])])
    yield Killed("killed", 32)


if __name__ == "__main__":
    sys.exit(rxe_pair.main(__doc__, cases(), rxe_pair.run_all, []))
