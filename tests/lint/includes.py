#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the direction of #include between the rooms of the house: includes.py SOURCE_ROOT.

A room is a folder; ROOMS says which other rooms its files may see, besides its own. There are no exceptions, no
circles, and a folder that has no row is an error. docs/architecture.md draws the same.
"""
import graphlib
import pathlib
import re
import sys

PROTO = {"proto", "proto/base", "proto/cm", "proto/describe", "proto/rules"}
NIC = {"verbs/nic/model", "verbs/nic/resources", "verbs/nic/transport/base", "verbs/nic/transport/rc",
       "verbs/nic/transport/unreliable", "verbs/nic/transport", "verbs/nic/device"}
ENGINE = {"engine", "engine/os", "engine/port", "engine/run", "engine/faults", "engine/broker", "engine/shm"}
IBVERBS = {"verbs/ibverbs/catalogue", "verbs/ibverbs/hooks", "verbs/ibverbs/host", "verbs/ibverbs/control",
           "verbs/ibverbs/objects", "verbs/ibverbs"}

ROOMS = {
    "proto/base": set(),
    "proto": {"proto/base"},
    "proto/cm": {"proto", "proto/base"},
    "proto/rules": {"proto", "proto/base"},
    "proto/describe": {"proto", "proto/base", "proto/cm"},

    # The NIC: device -> transport -> resources -> model.
    "verbs/nic/model": PROTO,
    "verbs/nic/resources": PROTO | {"verbs/nic/model"},
    "verbs/nic/transport/base": PROTO | {"verbs/nic/model", "verbs/nic/resources"},
    "verbs/nic/transport/rc": PROTO | {"verbs/nic/model", "verbs/nic/resources", "verbs/nic/transport/base"},
    "verbs/nic/transport/unreliable": PROTO | {"verbs/nic/model", "verbs/nic/resources", "verbs/nic/transport/base"},
    "verbs/nic/transport": PROTO | NIC - {"verbs/nic/transport", "verbs/nic/device"},
    "verbs/nic/device": PROTO | NIC - {"verbs/nic/device"},

    # The connection manager: an object beside the NIC, of which it knows nothing.
    "verbs/cm": PROTO,
    "verbs/rdmacm": PROTO | NIC | ENGINE | {"verbs/cm", "verbs/ibverbs/catalogue", "verbs/ibverbs/hooks",
                                          "verbs/ibverbs/host"},

    # What NICs remember of the last moments.
    "verbs/record": PROTO | {"verbs/nic/model"},

    # What moves packets knows no NIC, and the NIC nothing of it. `engine` itself holds what both agree on.
    "engine": PROTO,
    "engine/os": PROTO,
    "engine/port": PROTO | {"engine/os"},
    "engine/run": PROTO | {"engine", "engine/os", "engine/port"},
    "engine/faults": PROTO | {"engine"},
    "engine/sim": PROTO | {"engine"},
    "engine/shm": PROTO | {"engine/os", "engine/port"},
    "engine/broker": PROTO | {"engine/os", "engine/port"},

    # What the packages offer to programs: plain C, alone.
    "verbs/include/uroce": set(),

    # The C face: objects -> control -> host -> hooks -> catalogue.
    "verbs/view": PROTO | {"verbs/nic/model"},
    "verbs/ibverbs/catalogue": set(),
    "verbs/ibverbs/hooks": PROTO | ENGINE | {"verbs/ibverbs/catalogue"},
    "verbs/ibverbs/host": PROTO | NIC | ENGINE | {"verbs/cm", "verbs/record", "verbs/view", "verbs/ibverbs/catalogue", "verbs/ibverbs/hooks"},
    "verbs/ibverbs/control": PROTO | ENGINE | {"verbs/include/uroce", "verbs/view", "verbs/ibverbs/catalogue",
                                               "verbs/ibverbs/hooks", "verbs/ibverbs/host"},
    "verbs/ibverbs/objects": PROTO | NIC | ENGINE | {"verbs/ibverbs/catalogue", "verbs/ibverbs/hooks",
                                                     "verbs/ibverbs/host", "verbs/ibverbs/control"},
    "verbs/ibverbs": {"verbs/ibverbs/catalogue", "verbs/ibverbs/host"},
    "verbs/preload": PROTO | ENGINE | IBVERBS | {"verbs/rdmacm", "verbs/view"},

    # Programs. rdma_server and rdma_client stand on verbs and RDMA CM alone; only tools/backend knows that there are
    # two kinds.
    "tools/version": set(),
    "tools/output": set(),
    "tools/package": set(),
    "tools/wireshark": {"proto"},
    "tools/rdma": {"tools/output"},
    "tools/preload": {"proto/base"},
    "tools/backend": {"tools/output", "tools/preload", "tools/rdma", "verbs/ibverbs/catalogue", "verbs/ibverbs/host"},
    "tools/workload": {"proto/base", "tools/rdma"},
    "tools/control": PROTO | {"tools/rdma", "tools/version", "tools/workload"},
    "tools/session": {"tools/control", "tools/output", "tools/rdma", "tools/workload"},
    "tools/cli": {"engine/faults", "proto/base", "verbs/ibverbs/catalogue", "tools/explain", "tools/backend", "tools/control", "tools/output", "tools/rdma", "tools/session", "tools/version",
                  "tools/workload"},
    "tools": {"tools/cli", "tools/output", "tools/rdma"},
    # Captures explained: explain -> words -> story -> packets -> capture.
    "tools/explain/capture": PROTO,
    "tools/explain/packets": PROTO | {"engine/faults", "tools/explain/capture"},  # Comments quote faults as their language has them.
    "tools/explain/story": PROTO | {"tools/explain/packets"},
    "tools/explain/words": PROTO | {"tools/explain/packets", "tools/explain/story"},
    "tools/explain": PROTO | {"verbs/record", "tools/output", "tools/explain/capture", "tools/explain/packets", "tools/explain/story",
                              "tools/explain/words"},
    "tools/uroce": PROTO | ENGINE | {"tools/backend", "tools/cli", "tools/control", "tools/explain", "tools/output", "tools/preload", "tools/rdma", "tools/version", "verbs/nic/model", "verbs/record",
                                     "verbs/include/uroce", "verbs/ibverbs/catalogue", "verbs/ibverbs/control", "verbs/ibverbs/host"},
    "tools/broker": PROTO | {"engine/broker", "tools/version"},
    # Lessons: on io_uring, on proto, on the standard verbs.
    "tools/learn": PROTO,
}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')
SUFFIXES = {".h", ".cc", ".c", ".def"}
TOPS = ("proto", "verbs", "engine", "tools")


def main(root):
    graphlib.TopologicalSorter(ROOMS).prepare()  # Raises CycleError.
    wrong = []
    seen = 0
    for top in TOPS:
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SUFFIXES:
                continue
            seen += 1
            name = file.relative_to(root).as_posix()
            room = name.rpartition("/")[0]
            if room not in ROOMS:
                wrong.append(f"{name}: the folder {room} has no row in ROOMS")
                continue
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = match.group(1)
                if target.startswith(tuple(f"{top}/" for top in (*TOPS, "tests"))):
                    other = target.rpartition("/")[0]
                    if other != room and other not in ROOMS[room]:
                        wrong.append(f"{name}:{number}: {room} may not include {target}")
                elif ".." in target.split("/"):
                    wrong.append(f"{name}:{number}: write includes from the repository's root: {target}")
    for line in wrong:
        print(line)
    if seen == 0:
        sys.exit(f"no sources under {root}: wrong folder?")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
