# SPDX-License-Identifier: Apache-2.0
"""tshark with our plugin."""
import os
import subprocess


def tshark(plugin, *options, environment=None):
    """What it prints. Wireshark 4.4 runs no plugins for root: in a user namespace it does not see that this is root."""
    disguise = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if os.geteuid() != 0 or subprocess.run([*disguise, "true"], capture_output=True, check=False).returncode != 0:
        disguise = []
    ran = subprocess.run([*disguise, "tshark", "-X", f"lua_script:{plugin}", *map(str, options)], capture_output=True, text=True,
                         timeout=100, check=False, env={**os.environ, **(environment or {})})
    assert ran.returncode == 0 and "Lua" not in ran.stderr and "Lua Error" not in ran.stdout, (options, ran)
    return ran
