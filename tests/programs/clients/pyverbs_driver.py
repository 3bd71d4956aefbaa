# SPDX-License-Identifier: Apache-2.0
"""Loads rdma-core's tests and runs those of one module; inside a process that has Debian's pyverbs and our library.

    pyverbs_driver.py RESULTS MODULE -- OPTION_OF_run_tests.py...       (in the folder above `tests`)

Writes one JSON object per line to RESULTS as things happen: {"test": id, "outcome": "start" | "ok" | "skip" | "fail",
"text": why}. A test that starts and has no outcome has ended the process.
"""

import json
import pathlib
import random
import sys
import unittest


class Recorder(unittest.TestResult):
    def __init__(self, file):
        super().__init__()
        self.file = file

    def record(self, test, outcome, text=""):
        self.file.write(json.dumps({"test": test.id(), "outcome": outcome, "text": text}) + "\n")
        self.file.flush()

    def startTest(self, test):
        super().startTest(test)
        random.seed(test.id())  # They choose capabilities and attributes by chance; the record is of one choice.
        self.record(test, "start")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.record(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, "skip", reason)

    def addError(self, test, err):
        super().addError(test, err)
        self.record(test, "fail", self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        self.addError(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.record(test, "fail", self._exc_info_to_string(err, test))


def main():
    results, module, options = sys.argv[1], sys.argv[2], sys.argv[4:]
    here = pathlib.Path.cwd()
    sys.path[:0] = [str(here), str(here / "tests")]  # "args_parser" is imported from within and as a sibling.
    sys.argv = ["run_tests.py", *options]
    from args_parser import parser
    parser.parse_args()
    import tests
    suite = unittest.defaultTestLoader.loadTestsFromModule(getattr(tests, module))
    with open(results, "w") as file:
        suite.run(Recorder(file))


if __name__ == "__main__":
    main()
