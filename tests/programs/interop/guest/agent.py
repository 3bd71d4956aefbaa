#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs commands for the host. TCP port 7000; request: one line of JSON {"command": ..., "timeout": seconds}; reply: what
the command prints (stdout and stderr), then a NUL byte and the exit status. Closing the connection kills the command."""

import json
import os
import select
import signal
import socket
import subprocess
import threading
import time


def run(request, connection):
    process = subprocess.Popen(["/bin/bash", "-c", request["command"]], stdin=subprocess.DEVNULL,
                               stdout=connection.fileno(), stderr=subprocess.STDOUT, cwd="/root", start_new_session=True)
    deadline = time.monotonic() + request["timeout"]
    pidfd = os.pidfd_open(process.pid)
    ready = select.select([pidfd, connection], [], [], max(0, deadline - time.monotonic()))[0]
    os.close(pidfd)
    if process.poll() is None and pidfd not in ready:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return 124
    return process.wait()


def serve(connection):
    with connection:
        status = run(json.loads(connection.makefile("rb").readline()), connection)
        connection.sendall(b"\0%d\n" % status)


with socket.create_server(("", 7000), family=socket.AF_INET, backlog=16) as listener:
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
