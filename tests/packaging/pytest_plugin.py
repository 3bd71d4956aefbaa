#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plugin for pytest, without pytest, which is not installed everywhere:  pytest_plugin.py SOURCE_DIR BIN_DIR

Exit status: 0, 1, or 2 = wrong arguments.
"""

import os
import pathlib
import re
import sys
import tempfile
import types


def no_pytest():
    """What the plugin takes of pytest while it is imported, and when a test fails."""

    def fail(text):
        raise AssertionError(text)

    return types.SimpleNamespace(fixture=lambda function: function, fail=fail,
                                 hookimpl=lambda **_: lambda function: function)


def refusal(make, **settings):
    try:
        make(**settings)
    except TypeError as error:
        return str(error)
    return "none"


def main(source, binaries):
    sys.modules["pytest"] = no_pytest()
    sys.path.insert(0, str(source / "tools/pytest"))
    import pytest_uroce  # pylint: disable=import-outside-toplevel
    os.environ["PATH"] = f"{binaries}:{os.environ['PATH']}"
    for variable in [name for name in os.environ if name.startswith("UROCE_")]:
        del os.environ[variable]

    rows = (source / "verbs/ibverbs/catalogue/settings.def").read_text()
    known = {name.lower() for name in re.findall(r'^UROCE_SETTING\(\w+, "UROCE_(\w+)"', rows, re.MULTILINE)}
    assert known == {*pytest_uroce.SETTINGS, "pcap", "record"}, known.symmetric_difference(pytest_uroce.SETTINGS)

    with tempfile.TemporaryDirectory() as directory:
        node = types.SimpleNamespace(get_closest_marker=lambda name: None)
        fixture = pytest_uroce.uroce_nic(types.SimpleNamespace(node=node), pathlib.Path(directory))
        make = next(fixture)
        devices = ["ls", "/sys/class/infiniband"]
        for settings, wanted in (({}, "uroce0\n"), ({"devices": 2}, "uroce0\nuroce1\n"),
                                 ({"addr": "127.0.52.1;127.0.52.2"}, "uroce0\nuroce1\n")):
            said = make(**settings).run(devices)
            assert said == wanted, (settings, said)
        said = make().run(["printf", r"a\377b"])
        assert said == r"a\xffb", said
        process = make().start(["printf", r"a\377b"], text=False)
        assert process.communicate()[0] == b"a\xffb"
        said = refusal(make, fault="loss=1%")
        assert said == "uroce_nic: no setting has the name 'fault'; is faults meant?", said
        said = refusal(make, zzz=1)
        assert said.startswith("uroce_nic: no setting has the name 'zzz'; there are addr, devices, "), said
        next(fixture, None)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__)
        sys.exit(2)
    main(*(pathlib.Path(argument).resolve() for argument in sys.argv[1:]))
