#!/usr/bin/env python3
"""Checks the direction of #include between the layers: includes.py SOURCE_ROOT.

proto <- verbs/nic <- verbs/transport, proto <- verbs/cm, proto <- engine, and verbs/ibverbs and tools on top. An include that is written
from the repository's root must name a folder that the including file's layer may see.
"""
import pathlib
import re
import sys

LAYERS = ["proto", "verbs/nic", "verbs/transport", "verbs/cm", "verbs/view", "verbs/ibverbs", "verbs/preload", "verbs/rdmacm",
          "engine", "tools"]
NIC = {"proto", "verbs/nic", "verbs/transport"}
MAY_SEE = {
    "proto": {"proto"},
    "verbs/nic": NIC,
    "verbs/transport": NIC,
    "verbs/cm": {"proto", "verbs/cm"},
    "engine": {"proto", "engine"},
    "verbs/view": {"proto", "verbs/nic", "verbs/view"},
    "verbs/ibverbs": NIC | {"verbs/cm", "engine", "verbs/view", "verbs/ibverbs"},
    "verbs/preload": {"proto", "engine", "verbs/view", "verbs/ibverbs", "verbs/preload"},
    "verbs/rdmacm": NIC | {"verbs/cm", "engine", "verbs/ibverbs", "verbs/rdmacm"},
    "tools": set(LAYERS),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')
SUFFIXES = {".h", ".cc", ".c", ".def"}


def layer_of(path):
    return next((layer for layer in LAYERS if path.startswith(layer + "/")), None)


def main(root):
    wrong = []
    seen = {layer: 0 for layer in LAYERS}
    for top in sorted({layer.split("/")[0] for layer in LAYERS}):
        for file in sorted((root / top).rglob("*")):
            name = file.relative_to(root).as_posix()
            layer = layer_of(name)
            if file.suffix not in SUFFIXES or layer is None:
                continue
            seen[layer] += 1
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = match.group(1)
                if target.startswith(("verbs/", "engine/", "proto/", "tools/", "tests/")):
                    if layer_of(target) not in MAY_SEE[layer]:
                        wrong.append(f"{name}:{number}: {layer} may not include {target}")
                elif ".." in target.split("/"):
                    wrong.append(f"{name}:{number}: write includes from the repository's root: {target}")
    for line in wrong:
        print(line)
    if seen["proto"] == 0:
        sys.exit(f"no sources under {root}: wrong folder?")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
