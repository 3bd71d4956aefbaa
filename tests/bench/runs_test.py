#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs bench.py with the arguments of this program, in a network of its own: other tests take the addresses of its NICs."""
import contextlib
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "support"))
import own_namespaces  # pylint: disable=wrong-import-position

with contextlib.suppress(own_namespaces.NotPermitted):  # Then on the host's, where other tests may run.
    own_namespaces.enter("n", ("", "r"))
os.execv(sys.executable, [sys.executable, str(HERE / "bench.py"), *sys.argv[1:]])
