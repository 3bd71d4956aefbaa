#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `uroce enable` and `uroce disable` do to the files of a user's login:  login.py PATH_OF_UROCE

The files are in a folder of ours. No device of the machine is named: a program that is wrong would remove it.
"""

import os
import pathlib
import stat
import subprocess
import sys
import tempfile

UROCE = sys.argv[1]
MARK = "# uroce enable\n"
NOBODY = 65534


def uroce(home, command, status=0, says="", shell="/bin/bash"):
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "SHELL": shell}
    done = subprocess.run([UROCE, command], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=20, check=False)  # A FIFO must not keep it.
    text = done.stdout + done.stderr
    assert done.returncode == status, f"{command} ended with {done.returncode} instead of {status}: {text}"
    assert says in text, f"{command} does not say '{says}': {text}"


def make_file(path, text="export A=1\n", mode=0o640):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def owner_of(path):
    return path.stat().st_uid, path.stat().st_gid


def is_enabled(path):
    return path.read_text().endswith(MARK)


def only_refused(home):
    """Both commands, and nothing has changed."""
    before = sorted((p, p.lstat().st_ino) for p in home.iterdir())
    for command in ("enable", "disable"):
        uroce(home, command, 1, "is no regular file")
        assert sorted((p, p.lstat().st_ino) for p in home.iterdir()) == before, f"{command} has changed the folder"


def device(home):
    node = home / "node"
    try:
        os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # As /dev/null.
    except PermissionError:
        return  # No root.
    (home / ".profile").symlink_to(node)
    only_refused(home)


def fifo(home):
    os.mkfifo(home / ".profile")
    only_refused(home)


def directory(home):
    (home / ".bash_profile").mkdir()
    only_refused(home)


def link(home):
    """The file behind it has the line; it stays a link."""
    kept, profile = home / "dots/profile", home / ".profile"
    make_file(kept)
    profile.symlink_to("dots/profile")
    uroce(home, "enable")
    assert profile.is_symlink() and is_enabled(kept)
    uroce(home, "disable")
    assert profile.is_symlink() and kept.read_text() == "export A=1\n"


def dangling(home):
    """So does one whose file is not there yet."""
    (home / "dots").mkdir()
    (home / ".profile").symlink_to("dots/first")
    (home / "dots/first").symlink_to("second")
    uroce(home, "enable")
    assert (home / ".profile").is_symlink() and (home / "dots/first").is_symlink()
    assert is_enabled(home / "dots/second")
    uroce(home, "disable", says="removed")
    assert (home / ".profile").is_symlink() and not (home / "dots/second").exists()
    (home / "dots/first").unlink()
    (home / "dots").rmdir()
    uroce(home, "enable", 1, f"can't make a file in {home}/dots: No such file or directory")


def loop(home):
    (home / ".profile").symlink_to(".profile")
    for command in ("enable", "disable"):
        uroce(home, command, 1, f"can't use {home}/.profile: Too many levels of symbolic links")
        assert (home / ".profile").is_symlink()


def mode(home):
    make_file(home / ".profile", mode=0o604)
    for command in ("enable", "disable"):
        uroce(home, command)
        assert stat.S_IMODE((home / ".profile").stat().st_mode) == 0o604


def owner(home):
    """Root changes the file of somebody else, or makes it."""
    if os.geteuid() != 0:
        return
    os.chown(home, NOBODY, NOBODY)
    uroce(home, "enable")
    assert owner_of(home / ".profile") == (NOBODY, NOBODY), "a new file"
    os.chown(home / ".profile", NOBODY, 0)
    uroce(home, "enable")
    assert owner_of(home / ".profile") == (NOBODY, 0), "one that was there"
    assert [p.name for p in home.iterdir()] == [".profile"], "something is left"


def planted(home):
    """A link where a temporary file once was is not followed."""
    make_file(home / "mine", "mine\n")
    (home / ".profile.uroce").symlink_to("mine")
    uroce(home, "enable")
    assert (home / "mine").read_text() == "mine\n"
    assert is_enabled(home / ".profile")


def other_lines(home):
    """They stay as they are, also a last one without an end."""
    text = "a\0b\r\nc"
    make_file(home / ".profile", text)
    uroce(home, "enable")
    uroce(home, "enable")
    assert (home / ".profile").read_bytes().count(MARK.encode()) == 1
    uroce(home, "disable")
    assert (home / ".profile").read_bytes() == text.encode() + b"\n"


def shells(home):
    """Each reads files of its own, and some none with lines of sh."""
    make_file(home / ".profile")
    for shell in ("/usr/bin/fish", "/bin/tcsh"):
        uroce(home, "enable", 1, "uroce env --plain", shell)
    uroce(home, "enable", shell="/usr/bin/zsh")
    assert is_enabled(home / ".zprofile") and not is_enabled(home / ".profile")
    uroce(home, "disable", shell="/usr/bin/zsh")
    assert [p.name for p in home.iterdir()] == [".profile"]


def main():
    for case in (device, fifo, directory, link, dangling, loop, mode, owner, planted, other_lines, shells):
        with tempfile.TemporaryDirectory() as home:
            case(pathlib.Path(home).resolve())
        print("ok", case.__name__)


if __name__ == "__main__":
    main()
