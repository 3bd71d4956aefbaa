#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose environment, or order of libraries, is not the usual one:  environments.py UROCE LIBRARIES PLUGIN

Exit status: 0, 1, 77 = may make no network of its own, or 2 = wrong arguments.
"""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import own_namespaces  # noqa: E402

ADDRESS = "127.0.8.9"
GID = "0000:0000:0000:0000:0000:ffff:7f00:0809"
# As daemons do; `uroce run` has told the settings.
CLEARED = """import os
if {}: os.environ.clear()
print(open("/sys/class/infiniband/uroce0/ports/1/gids/1").read())"""
WITHOUT_PRELOAD = "import ctypes, sys; print('devices:', ctypes.CDLL(sys.argv[1]).devices())"


def output(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=20, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    uroce, libraries, plugin = sys.argv[1:]
    for condition in ("False", "True"):
        found = output(uroce, "run", "--addr", ADDRESS, "--", sys.executable, "-c", CLEARED.format(condition))
        if found != GID:
            sys.exit(f"environment cleared: {condition}; GID {found}, not that of --addr")
    print(output(sys.executable, "-c", WITHOUT_PRELOAD, plugin,
                 env=dict(os.environ, LD_LIBRARY_PATH=libraries, UROCE_ADDR=ADDRESS)))
    return 0


if __name__ == "__main__":
    own_namespaces.enter_or_skip()
    sys.exit(main())
