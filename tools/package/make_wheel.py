#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_wheel.py DIST_INFO OUT: packs the plugin for pytest as a wheel (PEP 427), for pip. Prints its name.

DIST_INFO is the folder NAME-VERSION.dist-info that the build has made. A wheel of one module is a zip with a list of
contents: no tool of Python's world is needed for that. The same sources give the same bytes.
"""
import base64
import hashlib
import pathlib
import sys
import zipfile

MODULE = pathlib.Path(__file__).parent.parent / "pytest" / "pytest_uroce.py"
WHEEL = "Wheel-Version: 1.0\nGenerator: uroce\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
EARLIEST = (1980, 1, 1, 0, 0, 0)  # That a zip knows.


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def main(dist_info, out):
    folder = dist_info.name
    files = {MODULE.name: MODULE.read_bytes(), f"{folder}/WHEEL": WHEEL.encode()}
    for name in ("METADATA", "entry_points.txt"):
        files[f"{folder}/{name}"] = (dist_info / name).read_bytes()
    record = "".join(record_line(name, data) for name, data in files.items()) + f"{folder}/RECORD,,\n"
    wheel = out / f"{folder.removesuffix('.dist-info')}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**files, f"{folder}/RECORD": record.encode()}.items():
            entry = zipfile.ZipInfo(name, EARLIEST)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    print(wheel)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
