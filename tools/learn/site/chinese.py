# SPDX-License-Identifier: Apache-2.0
"""A search for pages in Chinese and English. Chinese has no spaces, and a dictionary splits the text at other places than
the reader's word (Sphinx's own finds no page with the word for "completion queue"). So both sides are split into pairs of
neighbouring characters, and single ones: who searches a word of any length finds the pages that have all its pairs."""

import re

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
