#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files and folders that the documents and the comments name are there: doc_paths.py SOURCE_ROOT

Looked at: links in all .md files, with their anchors; what stands there between backticks; comments. A name is a path
from the root (verbs/nic), or the end of one that has the suffix of a source (nic.cc, base/timers.h). In it, * stands
for anything, {a,b} for one of them, and a word in CAPITALS for whatever the text says.
"""
import fnmatch
import pathlib
import re
import sys

TOPS = ("docs", "engine", "pcaps", "proto", "tests", "tools", "verbs")
SUFFIXES = "h|cc|def|py|sh|cmake|md|lua|ndjson|patch"
NAME = re.compile(r"(?<![\w./<$}-])((?:%s)/[\w./*{},-]*[\w}*]|[\w*-]+(?:/[\w*-]+)*\.(?:%s))(?![\w*/])" % ("|".join(TOPS), SUFFIXES))
TICKED = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
CODE_BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
SLASHES = re.compile(r"(?<![:\"'/])//+(.*)")
HASH = re.compile(r"(?:^|\s)#(?!include|define|if|endif|pragma)(.*)")
DOCSTRING = re.compile(r'"""(.*?)"""', re.S)
# Of others: the kernel's, the C library's.
FOREIGN = re.compile(r"(?:include/uapi|linux|netinet|sys)/")
# Made by the build.
MADE = {"page.cc"}
# Names what is not there on purpose.
PLANTED = "tests/lint/lint_test.sh"
# docs/architecture.md reserves them. When one is there, its name leaves this list, and the sentence the page.
RESERVED = ("verbs/nic/transport/congestion",)


class Tree:
    def __init__(self, root):
        self.files = [f.relative_to(root).as_posix() for f in root.iterdir() if f.is_file()]
        for top in TOPS:
            if (root / top).is_dir():
                self.files += [f.relative_to(root).as_posix() for f in (root / top).rglob("*") if "__pycache__" not in f.parts]
        self.ends = set(TOPS)
        for file in self.files:
            parts = file.split("/")
            self.ends.update("/".join(parts[i:]) for i in range(len(parts)))
        # "docs/adr/0005" and "tests/judged/sim/memory" are names of files without their ends.
        self.whole = set(self.files)

    def has(self, name):
        if name.split("/")[0] in TOPS and any(file == name or file[:len(name) + 1] in (name + ".", name + "-") for file in self.whole):
            return True
        if "*" in name:
            return any(fnmatch.fnmatch(end, name) for end in self.ends)
        return name in self.ends


def spelled_out(name):
    """Each choice of {a,b}, and * for a word in capitals."""
    match = re.fullmatch(r"(.*?)\{([^{}]*)\}(.*)", name)
    if match:
        before, choice, after = match.groups()
        return [each for word in choice.split(",") for each in spelled_out(before + word + after)]
    return [re.sub(r"(?<![A-Za-z])[A-Z]{3,}(?=[._]|$)(?:_\w+?(?=\.))?", "*", name) if not name.endswith(".md") else name]


def missing(tree, text):
    for match in NAME.finditer(text):
        written = match.group(1)
        if FOREIGN.match(written) or written in MADE or written in RESERVED:
            continue
        for name in spelled_out(written):
            if not tree.has(name.rstrip("/")):
                yield written
                break


def anchors(text):
    """Of the headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-")
            for heading in HEADING.findall(CODE_BLOCK.sub("", text))}


def in_page(root, tree, page):
    text = (root / page).read_text()
    prose = CODE_BLOCK.sub("", text)
    for ticked in TICKED.findall(prose):
        yield from missing(tree, " ".join(word for word in ticked.split() if not word.startswith(("/", "./", "build/"))))
    for target in LINK.findall(prose):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (root / page).parent / path if path else root / page
        if not file.exists() or root.resolve() not in [file.resolve(), *file.resolve().parents]:
            yield target
        elif anchor and anchor not in anchors(file.read_text()):
            yield target


def in_source(tree, name, text):
    comment = SLASHES if name.endswith((".h", ".cc", ".c", ".def")) else HASH
    for line in text.splitlines():
        for words in comment.findall(line):
            yield from missing(tree, words)
    if name.endswith(".py"):
        for comment in DOCSTRING.findall(text):
            yield from missing(tree, comment)


def main(root):
    tree = Tree(root)
    pages = [name for name in tree.files if name.endswith(".md")]
    sources = [name for name in tree.files
               if name.endswith((".h", ".cc", ".c", ".def", ".py", ".sh", ".cmake", "CMakeLists.txt")) and name != PLANTED]
    if not pages or not sources:
        sys.exit(f"no pages or no sources in {root}: wrong folder?")
    wrong = [f"{page}: {name}" for page in pages for name in in_page(root, tree, page)]
    wrong += [f"{name}: {found}" for name in sources for found in in_source(tree, name, (root / name).read_text(errors="replace"))]
    wrong += [f"{name} is there: take it out of RESERVED, and say in docs/architecture.md what it is" for name in RESERVED
              if name in tree.whole]
    if wrong:
        print(*sorted(set(wrong)), sep="\n")
        sys.exit(f"{len(set(wrong))} names of files, folders or headings that do not exist: correct them, or list them at the top of doc_paths.py")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
