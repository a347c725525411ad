"""Holds docs/PROTOCOL.md to proto/dlpackd.proto, limits.h and status.h.

Each message, and in a section that tells of it each of its fields, is named in
backticks; each limit and each status has a row with its number.
"""

import re
import sys
from pathlib import Path


def messages_of(proto: str) -> dict[str, list[str]]:
    """The fields of each message, those within a oneof included."""
    found: dict[str, list[str]] = {}
    text = re.sub(r"//.*", "", proto)
    for start in re.finditer(r"^message (\w+) \{", text, re.M):
        end = text.index("\n}", start.start())
        body = text[start.end() : end]
        found[start[1]] = re.findall(r"^\s+(?:repeated )?\w+ (\w+) = \d+;", body, re.M)
    return found


def limits_of(header: str) -> dict[str, int]:
    """The constants, with expressions of other constants computed."""
    known = {"UINT32_MAX": 2**32 - 1}
    for name, value in re.findall(r"^#define (DLP_\w+) (.+)$", header, re.M):
        value = re.sub(r"UINT64_C\((\d+)\)", r"\1", value)
        if not re.fullmatch(r"[\w\s()*+<-]+", value):
            sys.exit(f"limits.h: cannot compute {name}")
        known[name] = eval(value, {"__builtins__": {}}, known)
    return {name: value for name, value in known.items() if name.startswith("DLP_")}


def rows_of(document: str) -> list[list[str]]:
    """The cells of every row of every table."""
    lines = [line for line in document.splitlines() if line.startswith("| ")]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]


def check(root: Path) -> list[str]:
    document = (root / "docs/PROTOCOL.md").read_text()
    proto = (root / "proto/dlpackd.proto").read_text()
    parts = re.split(r"^## ", document, flags=re.M)
    sections = [set(re.findall(r"`(\w+)`", part)) for part in parts]
    limits = limits_of((root / "proto/limits.h").read_text())
    statuses = re.findall(r"X\((\d+), (\w+)\)", (root / "proto/status.h").read_text())
    rows = rows_of(document)
    wrong = []

    messages = messages_of(proto)
    bodies = {name.lower() for name in messages}
    for message, fields in messages.items():
        named = [names for names in sections if message in names]
        if not named:
            wrong.append(f"message {message} is not described")
            continue
        wrong += [
            f"{message}.{field} is not described where {message} is"
            for field in fields
            if not any(field in names for names in named)
            and not (message in ("Request", "Reply") and field in bodies)
        ]
    for name, value in limits.items():
        if [name, str(value)] not in [row[:2] for row in rows]:
            wrong.append(f"no row says that {name} is {value}")
    for number, name in statuses:
        if [number, name] not in [row[:2] for row in rows]:
            wrong.append(f"no row says that status {number} is {name}")
    for name in set(re.findall(r"DLP_[A-Z_]+", document)) - set(limits):
        wrong.append(f"{name} is not in limits.h")
    return wrong


if __name__ == "__main__":
    problems = check(Path(sys.argv[1]))
    print("\n".join(problems))
    sys.exit(1 if problems else 0)
