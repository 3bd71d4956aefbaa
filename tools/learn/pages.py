#!/usr/bin/env python3
"""Fills the pages of docs/learn from the real programs and their real runs, and notices when they drift.

    pages.py BUILD_DIR [LESSON...]           rewrites the pages of these lessons (all of them without a name)
    pages.py --check BUILD_DIR LESSON...     fails when a page does not show the program or what it prints
    pages.py --check-pairs                   fails when the languages do not have the same pages and headings, a link leads
                                             nowhere, or a drawing is straight with some fonts only

A page holds two kinds of generated blocks:

    ```cpp tools/learn/01_read_file.cc       the source file; `cpp FILE#NAME` is the part between `// begin NAME` and `// end NAME`
    ```console                               commands behind `$ `, followed by what they print, also on standard error

All commands of a page run in one bash, in a directory that looks like a clone, in a network of their own, with the
programs of the build in PATH; UROCE_SEED fixes numbers. A line that begins with `# ` is a remark. A command that ends
with `&` is waited for at the end of its block. Numbers behind `~` or in front of a unit of time are measured, and may
differ from the page's; so may the numbers of frames (#9) and 64-bit addresses, and the lines in which uroce explain says
that packets were slow. The English page is run; the Chinese one must show the same blocks. Exit status 77: a lesson says
that it can't run here.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "learn"
LANGUAGES = ("en", "zh")
SKIPPED = 77
ATTEMPTS = 3
RUN_TIMEOUT = 60  # seconds for all commands of a page; most need one.
BLOCK = re.compile(r"^```(cpp|console)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DRAWING = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NO_FIXED_WIDTH = re.compile("[…“”‘’—]")  # One column or two, as the font likes; Chinese characters are always two.
MEASURED = re.compile(r"~[\d.]+|#\d+|0x[0-9a-f]{9,}|(?<![\w.])[\d.]+ (?:ns|us|ms|s|[kMG]?bit/s)(?!\w)")

SETUP = """\
ip link set lo up
export PATH=$PWD/build/release/bin/learn:$PWD/build/release/bin:$PATH UROCE_SEED=0 TERM=dumb
status_of() { [ $1 = 0 ] || echo "(exit status $1)"; [ $1 != 77 ] || kill -s USR1 $$; }
trap 'exit 77' USR1
"""


# In a chroot unshare can't change how mounts propagate, since / is no mount there; /proc is one, and can be cut off.
PROC_OF_A_CHROOT = 'mount --make-rslave /proc && mount -t proc proc /proc && exec "$@"'


def namespaces():
    """The command that gives a page a network and processes of its own. None, and why, where that is impossible."""
    unshare = ["unshare", "--net", "--pid", "--fork", "--kill-child"]
    wrong = []
    for command in ([*unshare, "--mount-proc"],
                    [*unshare, "--user", "--map-root-user", "--mount-proc"],
                    [*unshare, "--mount", "--propagation", "unchanged", "sh", "-c", PROC_OF_A_CHROOT, "sh"]):
        done = subprocess.run([*command, "true"], stderr=subprocess.PIPE, check=False, text=True)
        if done.returncode == 0:
            return command, None
        wrong.append(done.stderr.strip())
    return None, "; ".join(wrong)


def commands_of(block):
    return [line[2:] for line in block.splitlines() if line.startswith(("$ ", "# "))]


def run_blocks(blocks, build):
    """What each console block of a page looks like after a run."""
    launcher, wrong = namespaces()
    if launcher is None:
        print(f"skipped, so nothing is proved: a page needs a network of its own, and this machine gives none ({wrong}); "
              "run the tests as root, or allow user namespaces")
        sys.exit(SKIPPED)
    script = SETUP
    for number, block in enumerate(blocks):
        script += f"echo '@@@ {number}'\n"
        for line in block.splitlines():
            if line.startswith("# "):
                script += f"cat <<'@@@'\n{line}\n@@@\n"
            elif line.startswith("$ "):
                command = line[2:]
                script += f"cat <<'@@@'\n{line}\n@@@\n{command}\n"
                if not command.split(" # ")[0].rstrip().endswith("&"):
                    script += "status_of $?\n"
        script += "wait\n"
    with tempfile.TemporaryDirectory(prefix="uroce-learn-") as temporary:
        clone = pathlib.Path(temporary)
        for entry in ROOT.iterdir():
            if entry.name not in ("build", ".git"):
                (clone / entry.name).symlink_to(entry)
        (clone / "build").mkdir()
        (clone / "build" / "release").symlink_to(build)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("UROCE_")}
        done = subprocess.run([*launcher, "bash", "-c", script], cwd=clone, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=RUN_TIMEOUT, check=False,
                              text=True, errors="replace")
    if done.returncode == SKIPPED:
        print(done.stdout)
        sys.exit(SKIPPED)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nthe commands ended with status {done.returncode}")
    parts = re.split(r"^@@@ \d+\n", done.stdout, flags=re.MULTILINE)[1:]
    return ["\n".join(line.rstrip() for line in part.splitlines()) + "\n" for part in parts]


def listing(name):
    path, _, part = name.partition("#")
    text = (ROOT / path).read_text()
    if part:
        lines = text.splitlines(keepends=True)
        begin = next(i for i, line in enumerate(lines) if line.strip() == f"// begin {part}")
        end = next(i for i, line in enumerate(lines) if line.strip() == f"// end {part}")
        text = "".join(lines[begin + 1:end])
    return text


def filled(text, build, outputs=None):
    """The page with its blocks as they should be, and the outputs of its console blocks."""
    blocks = [match.group(3) for match in BLOCK.finditer(text) if match.group(1) == "console"]
    if outputs is None:
        outputs = run_blocks(blocks, build) if blocks else []
    elif [commands_of(block) for block in blocks] != [commands_of(block) for block in outputs]:
        sys.exit("the languages do not run the same commands")
    remaining = iter(outputs)

    def fill(match):
        kind, name, _ = match.groups()
        if kind == "console":
            return f"```console\n{next(remaining)}```"
        return match.group(0) if name is None else f"```cpp {name}\n{listing(name)}```"

    return BLOCK.sub(fill, text), outputs


def comparable(line):
    return " ".join(MEASURED.sub("~", line).split())


def lines_of(text):
    """Numbered lines, without those by which uroce explain says that the machine was slow."""
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if " was on the way for " not in line]


def difference(page, expected):
    """The first line in which a page differs from what it should be, measured numbers aside."""
    end = (len(page.splitlines()) + 1, None)
    rows = zip([*lines_of(page), end], [*lines_of(expected), end])
    for (number, is_), (_, should) in rows:
        if is_ is None and should is None:
            return None
        if is_ is None or should is None or comparable(is_) != comparable(should):
            return f"line {number}:\n  the page: {is_}\n  the run:  {should}"
    return "lengths"


def lessons():
    return sorted(path.stem for path in (PAGES / "en").glob("[0-9]*.md"))


def drawings_that_shift(text):
    """The lines of drawings in which what comes behind a character depends on the font."""
    return [line.strip() for drawing in DRAWING.findall(text) for line in drawing.splitlines() if NO_FIXED_WIDTH.search(line)]


def check_pairs():
    names = [{path.name for path in (PAGES / language).glob("*.md")} for language in LANGUAGES]
    wrong = [f"{name}: in one language only" for name in sorted(names[0] ^ names[1])]
    for name in sorted(names[0] & names[1]):
        levels = [re.findall(r"^(#+) ", BLOCK.sub("", (PAGES / language / name).read_text()), re.MULTILINE)
                  for language in LANGUAGES]
        if levels[0] != levels[1]:
            wrong.append(f"{name}: the languages have different headings")
        wrong += [f"{name}: a drawing has a character whose width depends on the font: {line}" for language in LANGUAGES
                  for line in drawings_that_shift((PAGES / language / name).read_text())]
    sources = {path.stem for path in (ROOT / "tools" / "learn").glob("[0-9]*.cc")}
    pages = {name.removesuffix(".md") for name in names[0] if name[0].isdigit()}
    wrong += [f"{name}: a program without a page, or a page without a program" for name in sorted(sources ^ pages)]
    everything = [*PAGES.rglob("*.md"), *(ROOT / "docs").glob("troubleshooting*.md")]
    for page in everything:
        for line in BLOCK.sub("", page.read_text()).splitlines():
            for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", line):
                if not (page.parent / link).exists():
                    wrong.append(f"{page.relative_to(ROOT)}: links to {link}, which does not exist")
    packages = re.search(r'PACKAGES_BUILD="([^"]*)"', (ROOT / "tools/lib/setup.sh").read_text()).group(1).split()
    for language in LANGUAGES:
        words = (PAGES / language / "README.md").read_text().split()
        wrong += [f"{language}/README.md does not install {name}" for name in packages if name not in words]
    print("\n".join(wrong))
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--check-pairs"]:
        return check_pairs()
    check = arguments[:1] == ["--check"]
    if check:
        arguments = arguments[1:]
    if not arguments:
        sys.exit(__doc__)
    build, status = pathlib.Path(arguments[0]).resolve(), 0
    if not (build / "bin" / "learn").is_dir():
        sys.exit(f"{arguments[0]} has no lessons, and the pages would show errors: build the target `lessons` there")
    for lesson in arguments[1:] or lessons():
        if check:
            status |= check_lesson(lesson, build)
        else:
            write_lesson(lesson, build)
    return status


def write_lesson(lesson, build):
    outputs = None
    for language in LANGUAGES:
        page = PAGES / language / f"{lesson}.md"
        if not page.exists():
            continue
        text = page.read_text()
        expected, outputs = filled(text, build, outputs)
        if difference(text, expected):
            page.write_text(expected)
            print(f"written: {language}/{page.name}")


def check_lesson(lesson, build):
    """0 when the pages are right, else 1. On a busy machine a timer of a lesson may run out that does not otherwise: what
    differs is run again."""
    wrong = None
    for _ in range(ATTEMPTS):
        outputs, wrong = None, None
        for language in LANGUAGES:
            page = PAGES / language / f"{lesson}.md"
            expected, outputs = filled(page.read_text(), build, outputs)
            wrong = wrong or (difference(page.read_text(), expected) and
                              f"{language}/{page.name} {difference(page.read_text(), expected)}")
        if not wrong:
            return 0
    print(f"{wrong}\nIf that is right: tools/learn/pages.py BUILD_DIR {lesson}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
