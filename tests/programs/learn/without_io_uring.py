#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""without_io_uring.py DENY_IO_URING BIN_DIR: where io_uring is forbidden, the lessons on it say so, and what to do."""

import subprocess
import sys


def main(deny, programs):
    for lesson in ("01_read_file", "02_read_file_coroutine", "03_udp_echo", "04_registered_buffers", "05_multishot", "06_many_queues"):
        done = subprocess.run([deny, f"{programs}/{lesson}", sys.argv[0]][:3 if lesson < "03" else 2], capture_output=True,
                              text=True, timeout=30, check=False)
        if done.returncode != 77 or "io_uring_disabled" not in done.stderr or "seccomp" not in done.stderr:
            sys.exit(f"{lesson}: status {done.returncode}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main(*sys.argv[1:])
