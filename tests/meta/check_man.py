#!/usr/bin/env python3
"""Holds the manual pages of the daemon to what the daemon says of itself.

  check_man.py DLPACKD MAN_FOLDER     compares
  check_man.py DLPACKD                prints what belongs between the marks of dlpackd.conf.5

Options, their meaning and their defaults are written once, in daemon/config.c. dlpackd.conf(5)
repeats them between two marks, word for word as `dlpackd --help` says them; dlpackd(8) names
the flags that are no keys. Exits with 1 and what differs.
"""

import difflib
import pathlib
import re
import subprocess
import sys

BEGIN = '.\\" The options, as "dlpackd --help" says them: begin'
END = '.\\" end'

ROW = re.compile(r"^  --(?P<name>[a-z-]+)(=(?P<argument>\S+))?\s+(?P<help>.*?)"
                 r"( \[(?P<default>[^\]]*)\])?$")


def escaped(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def help_of(dlpackd):
    """(options that are keys, other flags), each a list of matches of ROW."""
    text = subprocess.run([dlpackd, "--help"], check=True, capture_output=True, text=True).stdout
    keys, others = text.split("\nOther:\n")
    return tuple([match for line in part.splitlines() if (match := ROW.match(line))]
                 for part in (keys, others))


def page_block(keys):
    lines = [BEGIN]
    for row in keys:
        default = f"Default: {escaped(row['default'])}." if row["default"] is not None else "Default: none."
        text = escaped(row["help"])
        lines += [".TP", f".BI {escaped(row['name'])} \" = {row['argument']}\"",
                  text[0].upper() + text[1:] + ".", default]
    return lines + [END]


def main():
    keys, others = help_of(sys.argv[1])
    wanted = page_block(keys)
    if len(sys.argv) == 2:
        print("\n".join(wanted))
        return 0
    folder = pathlib.Path(sys.argv[2])
    lines = (folder / "dlpackd.conf.5").read_text().splitlines()
    found = lines[lines.index(BEGIN):lines.index(END) + 1] if BEGIN in lines and END in lines else []
    faults = list(difflib.unified_diff(found, wanted, "dlpackd.conf.5", "dlpackd --help", lineterm=""))
    page = "\n".join(line for line in (folder / "dlpackd.8").read_text().splitlines()
                     if "systemctl" not in line)
    known = {row["name"] for row in keys + others}
    named = {name.replace("\\-", "-") for name in re.findall(r"\\-\\-((?:[a-z]|\\-)+)", page)}
    faults += [f"dlpackd.8 does not name --{row['name']}" for row in others if row["name"] not in named]
    faults += [f"dlpackd.8 names --{name}, which dlpackd does not know" for name in sorted(named - known)]
    for fault in faults:
        print(fault)
    print(f"{len(keys)} keys, {len(others)} other flags, {len(faults)} faults")
    return 1 if faults or not keys else 0


if __name__ == "__main__":
    sys.exit(main())
