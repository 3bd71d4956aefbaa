"""Sphinx's settings for tools/learn/site.sh: the pages of docs/ as a site, the lessons in front."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from chinese import WIDE_STYLE, SearchBoth, two_columns

extensions = ["myst_parser"]
project = "uroce"
root_doc = "learn/en/README"
source_suffix = {".md": "markdown"}
html_theme = "alabaster"
html_theme_options = {"description": "Learn it: from io_uring to verbs", "page_width": "auto",
                      "body_max_width": "1200px"}
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
templates_path = ["templates"]
CHINESE_SIDEBAR = ["about.html", "searchbox.html", "chinese.html"]
html_copy_source = html_show_copyright = False
html_search_language = SearchBoth.lang
myst_heading_anchors = 3
highlight_language = "none"
suppress_warnings = ["myst.xref_missing", "toc.not_readable", "misc.highlighting_failure"]

LINK = re.compile(r"\[([^\]]*)\]\(([^)#:]+)(#[^)]*)?\)")
LESSONS = "```{{toctree}}\n:hidden:\n:caption: {caption}\n{pages}\n```\n"


def on_the_site(app, name, source):
    """Links to files that are no pages become text, and the start pages get the list of lessons for the sidebar."""
    page = pathlib.Path(app.srcdir) / (name + ".md")

    def link(match):
        target = (page.parent / match[2]).resolve()
        inside = target.is_relative_to(pathlib.Path(app.srcdir).resolve()) and target.suffix == ".md"
        return match[0] if inside else match[1]

    source[0] = LINK.sub(link, source[0])
    if page.name == "README.md" and page.parent.name in ("en", "zh"):
        lessons = sorted(path.stem for path in page.parent.glob("[0-9]*.md"))
        chinese = page.parent.name == "zh"
        more = ["two_planes", "hardware", "../glossary", "../../troubleshooting_zh" if chinese else "../../troubleshooting"]
        source[0] += "\n" + LESSONS.format(caption="课程" if chinese else "Lessons", pages="\n".join(lessons + more))
        if not chinese:
            source[0] += "\n```{toctree}\n:hidden:\n:caption: 中文\n\n../zh/README\n```\n"
            source[0] += "\n```{toctree}\n:hidden:\n:glob:\n:caption: uroce\n\n../../*\n../../adr/*\n```\n"


def is_chinese(name):
    return name.startswith("learn/zh/") or name.endswith("_zh")


def chinese_page(app, name, _template, context, _doctree):
    """Pages in Chinese have the Chinese list of lessons beside them, a link to their English twin, the characters as they
    are written in China (Japan has others for the same code), and drawings whose columns meet."""
    if not is_chinese(name):
        return
    context["language"] = "zh-CN"
    context["metatags"] = context.get("metatags", "") + WIDE_STYLE
    context["body"] = two_columns(context["body"])
    titles = app.env.titles
    context["sidebars"] = CHINESE_SIDEBAR
    context["chinese_pages"] = [(page, titles[page].astext()) for page in sorted(titles) if is_chinese(page)]
    context["english_twin"] = name.replace("learn/zh/", "learn/en/").removesuffix("_zh")


def setup(app):
    app.add_search_language(SearchBoth)
    app.connect("source-read", on_the_site)
    app.connect("html-page-context", chinese_page)
