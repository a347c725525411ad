#!/usr/bin/env python3
"""Looks at every text file of the tree for what belongs in none.

  check_text.py ROOT

White space at the end of a line, carriage returns, a missing newline at the end of a file,
names of somebody's own folders, marks of a merge, notes to oneself. Exits with 1 and a line
per fault.
"""

import pathlib
import re
import subprocess
import sys

# Written so that this file does not accuse itself.
FAULTS = [
    ("white space at the end of a line", re.compile(r"[ \t]+$")),
    ("a carriage return", re.compile(r"\r")),
    ("a mark of a merge", re.compile(r"^(<{7}|>{7})( |$)")),
    ("the name of somebody's own folder", re.compile(r"/(work|root|home/[a-z]+)/[\w.]")),
    ("a note to oneself", re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")),
]
NOT_OURS = {"LICENSE"}


def tracked(root):
    """The files that git knows or would add; without git, all but the build folder."""
    try:
        names = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"],
            check=True, capture_output=True, text=True).stdout.split("\0")
        return [root / name for name in names if name and (root / name).is_file()]
    except (OSError, subprocess.CalledProcessError):
        return [path for path in root.rglob("*") if path.is_file()
                and not {"build", ".git"} & set(path.relative_to(root).parts)]


def faults_of(path, where):
    data = path.read_bytes()
    if b"\0" in data or where in NOT_OURS or "/corpus/" in where:
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        yield f"{where}: not UTF-8"
        return
    if text and not text.endswith("\n"):
        yield f"{where}: no newline at the end"
    for number, line in enumerate(text.split("\n"), 1):
        for what, pattern in FAULTS:
            if pattern.search(line):
                yield f"{where}:{number}: {what}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    paths = sorted(tracked(root))
    found = [fault for path in paths for fault in faults_of(path, str(path.relative_to(root)))]
    for line in found:
        print(line)
    print(f"{len(paths)} files, {len(found)} faults")
    return 1 if found or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
