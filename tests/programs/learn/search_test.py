#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""search_test.py SITE_DIR: the site's search finds Chinese words. What the page in the browser looks for has to be in what
Sphinx has put into the index; the browser's half runs by node, where there is one. And Chinese characters in a drawing are
marked, so that the style makes them two columns wide. Exit status 77: no Sphinx here."""

import json
import os
import shutil
import subprocess
import sys

TEXT = "每个完成队列（CQ）属于一个设备上下文；工作请求用 lkey 指明内存，保护域见 ibv_alloc_pd。"
FOUND = ["完成队列", "队列", "工作请求", "保护域", "设", "lkey", "ibv_alloc_pd", "CQ属于", "内存，保护域"]
NOT_FOUND = ["完成通道", "域保护", "rkey"]
DRAWING = "<p>以太网</p><pre><span>|</span> 以太网 | &lt;-- CQ：</pre>"
MARKED = '<p>以太网</p><pre><span>|</span> <span class="wide">以太网</span> | &lt;-- CQ<span class="wide">：</span></pre>'

TRIED = "UROCE_SPHINX_PYTHON"


def python_of_sphinx():
    """The Python in the first line of sphinx-build: it has Sphinx when the one of cmake has not."""
    program = shutil.which("sphinx-build")
    if program is None:
        return None
    with open(program, encoding="utf-8", errors="replace") as file:
        first = file.readline().strip()
    python = first[2:].strip()
    return python if first.startswith("#!") and os.access(python, os.X_OK) else None


def by_browser(splitter, queries):
    script = f"{splitter}\nconsole.log(JSON.stringify({json.dumps(queries)}.map(splitQuery)))"
    return json.loads(subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=30).stdout)


def main(site):
    sys.path.insert(0, site)
    try:
        from chinese import SearchBoth, two_columns
    except ImportError:
        other = python_of_sphinx()
        if other and other != os.environ.get(TRIED):
            os.environ[TRIED] = other
            os.execv(other, [other, __file__, site])
        print("skipped: no Sphinx (tools/learn/site.sh installs it)")
        return 77
    search = SearchBoth({})
    index = set(search.split(TEXT))
    queries = FOUND + NOT_FOUND
    ways = {"Sphinx": [search.split(query) for query in queries]}
    if shutil.which("node"):
        ways["the browser"] = by_browser(search.js_splitter_code, queries)
    wrong = [f"{way}: {query} becomes {words}" for way, all_words in ways.items() for query, words in zip(queries, all_words)
             if (bool(words) and set(words) <= index) != (query in FOUND)]
    if two_columns(DRAWING) != MARKED:
        wrong.append(f"the drawing becomes {two_columns(DRAWING)}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
