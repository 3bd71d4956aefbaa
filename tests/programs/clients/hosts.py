# SPDX-License-Identifier: Apache-2.0
"""A second host beside this one: a network namespace at the other end of a pair of virtual Ethernet cards, eth0 here and
eth0 there.
"""

import contextlib
import os
import subprocess

HERE, THERE = "10.99.0.1", "10.99.0.2"


class SecondHost:
    """`with SecondHost(mtu) as host: subprocess.run(host.there(command))`. For a network namespace of our own."""

    def __init__(self, mtu):
        self.mtu = mtu

    def __enter__(self):
        # Ends with its input, which we have: no namespace is left when we die.
        self.keeper = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; cat"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        self.keeper.stdout.readline()  # It is in its namespace now.
        subprocess.run(["ip", "link", "add", "eth0", "mtu", str(self.mtu), "type", "veth", "peer", "name", "eth0",
                        "mtu", str(self.mtu), "netns", str(self.keeper.pid)], check=True)
        for address, run in ((HERE, []), (THERE, self.there([]))):
            for what in ("addr add " + address + "/24 dev eth0", "link set eth0 up", "link set lo up"):
                subprocess.run([*run, "ip", *what.split()], check=True)
        return self

    def __exit__(self, *_):
        self.keeper.stdin.close()
        self.keeper.wait()
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run(["ip", "link", "del", "eth0"], check=True, capture_output=True)

    def there(self, command):
        """The command line that runs `command` on the other host."""
        return ["nsenter", "-t", str(self.keeper.pid), "-n", *command]

    def agent(self, directory):
        """A program that does for mpirun what ssh would."""
        path = os.path.join(directory, "on_second_host")
        with open(path, "w") as file:
            file.write(f'#!/bin/sh\nshift\nexec nsenter -t {self.keeper.pid} -n sh -c "$*"\n')
        os.chmod(path, 0o755)
        return path
