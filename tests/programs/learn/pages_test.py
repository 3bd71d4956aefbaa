#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pages_test.py PAGES_PY: what the script of the lessons' pages must notice."""

import importlib.util
import pathlib
import sys
import unittest
import unittest.mock

spec = importlib.util.spec_from_file_location("pages", pathlib.Path(sys.argv.pop(1)))
pages = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pages)


class Pages(unittest.TestCase):
    def test_measured_numbers_may_differ_and_nothing_else(self):
        self.assertIsNone(pages.difference("took ~12.5 turns\n", "took ~9 turns\n"))
        self.assertIsNone(pages.difference("+9.5 us   sent again\n", "+12 ms sent again\n"))
        self.assertIn("line 1", pages.difference("took 12.5 turns\n", "took 9 turns\n"))
        self.assertIn("line 2", pages.difference("a\n", "a\nb\n"))
        self.assertIn("line 2", pages.difference("a\nb\n", "a\n"))

    def test_a_slow_machine_makes_no_difference(self):
        self.assertIsNone(pages.difference("a\nb\n", "a\n  #9 +43 ms NAK was on the way for 39.9 ms\nb\n"))

    def test_a_listing_is_the_file(self):
        source = "tools/learn/ring.h"
        page, _ = pages.filled(f"```cpp {source}\nold\n```\n", None, [])
        self.assertEqual(page, f"```cpp {source}\n{(pages.ROOT / source).read_text()}```\n")

    def test_a_block_without_a_file_is_left_alone(self):
        text = "```cpp\nint x;\n```\n"
        self.assertEqual(pages.filled(text, None, [])[0], text)

    def test_outputs_take_the_place_of_what_the_page_shows(self):
        page, _ = pages.filled("```console\n$ true\nold\n```\n", None, ["$ true\nnew\n"])
        self.assertEqual(page, "```console\n$ true\nnew\n```\n")

    def test_languages_run_the_same_commands(self):
        with self.assertRaises(SystemExit):
            pages.filled("```console\n$ false\n```\n", None, ["$ true\n"])

    def test_drawings_are_straight_with_every_font(self):
        text = "“quoted”\n\n```text\n  |-- 发送 --->|  \"ok\"\n  |  …… 1 ms    |\n```\n"
        self.assertEqual(pages.drawings_that_shift(text), ["|  …… 1 ms    |"])

    def test_pages_are_not_filled_from_a_directory_without_lessons(self):
        with unittest.mock.patch.object(pages, "write_lesson") as write, self.assertRaisesRegex(SystemExit, "has no lessons"):
            pages.main(["--help"])
        write.assert_not_called()


if __name__ == "__main__":
    unittest.main()
