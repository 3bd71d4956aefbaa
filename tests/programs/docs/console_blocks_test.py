#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of console_blocks.py."""

import unittest

from console_blocks import missing_line, read_blocks

PAGE = """text
```console
$ one &
$ two \\
    and its end   # a comment
  12 packets, 3.5 us
...
last 0x1f
```
<!-- not run: an hour -->
```console
$ three
```
```
seed 1: this is not for pasting
```
"""


class Blocks(unittest.TestCase):
    def test_commands_continuations_and_output_are_told_apart(self):
        first, second = read_blocks(PAGE)
        self.assertEqual([c.text for c in first.commands], ["one &", "two \\\n    and its end   # a comment"])
        self.assertEqual(first.commands[1].output, ["  12 packets, 3.5 us", "...", "last 0x1f"])
        self.assertEqual((first.not_run, second.not_run), ("", "an hour"))

    def test_a_mark_that_is_not_right_above_the_block_does_not_count(self):
        blocks = read_blocks("<!-- not run: x -->\n\n```console\n$ a\n```\n")
        self.assertEqual(blocks[0].not_run, "")

    def test_a_command_outside_of_a_console_block_is_refused(self):
        with self.assertRaisesRegex(ValueError, "line 2"):
            read_blocks("```\n$ ls\n```\n")

    def test_numbers_are_wildcards_and_words_are_not(self):
        shown = read_blocks(PAGE)[0].commands[1].output
        self.assertIsNone(missing_line(shown, ["  9 packets,   17 us", "x", "y", "last 0xabc"]))
        self.assertEqual(missing_line(shown, ["9 packets, 17 ms", "last 0xabc"]), "  12 packets, 3.5 us")

    def test_lines_must_come_in_the_order_shown(self):
        self.assertEqual(missing_line(["a", "b"], ["b", "a"]), "b")


if __name__ == "__main__":
    unittest.main()
