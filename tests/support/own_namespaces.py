# SPDX-License-Identifier: Apache-2.0
"""For scripts that run in namespaces of their own: how to get there, and what must not be left behind."""

import os
import pathlib
import socket
import subprocess
import sys

INSIDE = "TEST_OWN_NAMESPACE"  # Set in the environment once we are there.
SKIPPED = 77


class NotPermitted(Exception):
    pass


def enter(kinds="n"):
    """Runs this program again in a user namespace, as root there, and in others: `kinds` has letters of unshare(1).
    In a new network, the loopback interface is up. Raises NotPermitted where that is forbidden."""
    if INSIDE not in os.environ:
        # Somebody who may make namespaces makes networks in the next step.
        if subprocess.run(["unshare", "-rn" + kinds, "true"], capture_output=True, check=False).returncode != 0:
            raise NotPermitted("no permission to make namespaces")
        os.environ[INSIDE] = "yes"
        os.execvp("unshare", ["unshare", "-r" + kinds, sys.executable, *sys.argv])
    if "n" in kinds:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def enter_or_skip(kinds="n"):
    """The same; where that is forbidden, the test is skipped."""
    try:
        enter(kinds)
    except NotPermitted as error:
        print(f"SKIPPED: {error}")
        sys.exit(SKIPPED)


def brokers():
    """Brokers in this network namespace; zombies, which wait for init, do not count."""
    ours = os.readlink("/proc/self/ns/net")
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text() == "uroce-broker\n" and os.readlink(process / "ns/net") == ours:
                found.append(int(process.name))
        except OSError:
            pass  # It has ended meanwhile.
    return found


def port_is_free(address):
    """Nobody has the RoCE port of this IPv4 address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 4791))
        except OSError:
            return False
    return True
