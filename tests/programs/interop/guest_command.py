#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""guest_command.py COMMAND: runs a shell command in the guest; its output and its exit status are ours. Has to run inside
the lab's namespace. As a module: GuestCommand, a command under way."""

import json
import os
import socket
import sys

AGENT = (os.environ.get("GUEST_IPV4", "10.77.0.2"), 7000)


class GuestCommand:
    def __init__(self, command, timeout=600):
        self.connection = socket.create_connection(AGENT, 3)
        self.connection.settimeout(timeout + 10)
        self.connection.sendall(json.dumps({"command": command, "timeout": timeout}).encode() + b"\n")
        self.output = b""

    def wait_for(self, text):
        """Reads on until `text` is in the output; false when the command ends first."""
        while text.encode() not in self.output:
            if not self._read():
                return False
        return True

    def finish(self):
        """Waits for the end. Returns (exit status, output)."""
        while self._read():
            pass
        self.connection.close()
        output, _, status = self.output.rpartition(b"\0")
        return (int(status), output.decode()) if status.strip().isdigit() else (255, self.output.decode())

    def kill(self):
        """The agent kills the command when the connection goes."""
        self.connection.close()

    def _read(self):
        data = self.connection.recv(65536)
        self.output += data
        return data


if __name__ == "__main__":
    try:
        exit_status, text = GuestCommand(sys.argv[1]).finish()
    except OSError as error:
        sys.exit(f"the guest does not answer: {error}")
    sys.stdout.write(text)
    sys.exit(exit_status)
