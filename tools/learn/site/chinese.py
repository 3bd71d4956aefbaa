# SPDX-License-Identifier: Apache-2.0
"""A search for pages in Chinese and English. Chinese has no spaces, and a dictionary splits the text at other places than
the reader's word (Sphinx's own finds no page with the word for "completion queue"). So both sides are split into pairs of
neighbouring characters, and single ones: who searches a word of any length finds the pages that have all its pairs.

And drawings: they count two columns for a Chinese character, as terminals do. In a browser it is narrower than two letters
of a monospaced font, and everything behind it would move to the left."""

import itertools
import re
import unicodedata

from sphinx.search.en import SearchEnglish

RUNS = re.compile(r"[\u3400-\u9fff]+|[^\W\u3400-\u9fff]+")
IS_CHINESE = re.compile(r"[\u3400-\u9fff]")

# What the page in the browser does with a query, instead of its own function.
SPLIT_QUERY = r"""
function splitQuery(query) {
    const runs = query.match(/[\u3400-\u9fff]+|[\p{Letter}\p{Number}_]+/gu) || [];
    return runs.flatMap(run => run.match(/[\u3400-\u9fff]+|[^\u3400-\u9fff]+/gu)).flatMap(run =>
        !/[\u3400-\u9fff]/.test(run) || run.length === 1 ? [run]
            : Array.from({length: run.length - 1}, (_, i) => run.slice(i, i + 2)));
}
"""

PREFORMATTED = re.compile(r"<pre>.*?</pre>", re.DOTALL)
TAG = re.compile(r"(<[^>]*>)")
# A Chinese character is 1em wide in every font. 1ch is one letter of this one.
WIDE_STYLE = """<style>pre .wide { letter-spacing: calc(2ch - 1em); font-kerning: none; text-spacing-trim: space-all; }</style>"""


def is_wide(character):
    return unicodedata.east_asian_width(character) in "WF"


def wide_runs_marked(text):
    """Text without tags, with a span around each run of characters that take two columns."""
    runs = itertools.groupby(text, is_wide)
    return "".join(f'<span class="wide">{"".join(run)}</span>' if wide else "".join(run) for wide, run in runs)


def two_columns(html):
    """The page with its drawings prepared for WIDE_STYLE."""
    def mark(match):
        return "".join(part if part.startswith("<") else wide_runs_marked(part) for part in TAG.split(match[0]))

    return PREFORMATTED.sub(mark, html)


class SearchBoth(SearchEnglish):
    lang = "en_zh"
    js_splitter_code = SPLIT_QUERY

    def split(self, text):
        words = []
        for run in RUNS.findall(text):
            if IS_CHINESE.match(run):
                words += [*run, *(run[i:i + 2] for i in range(len(run) - 1))]
            else:
                words.append(run)
        return words
