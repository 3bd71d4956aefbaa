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


def enter(kinds="n", users=("r",)):
    """Runs this program again in new namespaces: `kinds` has letters of unshare(1). With the first of `users` that is
    allowed: "r", root of a user namespace; "", the user that we are. In a new network, the loopback interface is up.
    Raises NotPermitted where nothing is allowed."""
    if INSIDE not in os.environ:
        for user in users:
            # Somebody who may make namespaces makes networks in the next step.
            if subprocess.run(["unshare", "-n" + user + kinds, "true"], capture_output=True, check=False).returncode == 0:
                os.environ[INSIDE] = "yes"
                os.execvp("unshare", ["unshare", "-" + user + kinds, sys.executable, *sys.argv])
        raise NotPermitted("no permission to make namespaces")
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
