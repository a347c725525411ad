#!/usr/bin/env python3
"""Holds the comments of the public headers to their form.

  check_docs.py ROOT

Every DLC_PUBLIC function has a comment with a first sentence, every parameter in the order of
the declaration, @return unless it returns nothing, and @since. Every code that a comment names
exists in DLC_ERROR_MAP. Exits with 1 and a line per fault.
"""

import pathlib
import re
import sys

FUNCTION = re.compile(r"(?:/\*\*(?P<comment>(?:(?!\*/).)*)\*/\s*)?"
                      r"^DLC_PUBLIC\s+(?P<declaration>[^;{]+);", re.DOTALL | re.MULTILINE)


def plain(comment):
    return "\n".join(re.sub(r"^\s*\* ?", "", line) for line in comment.splitlines()).strip()


def parameters(declaration):
    inside = declaration[declaration.index("(") + 1:declaration.rindex(")")]
    if inside.strip() in ("void", ""):
        return []
    return [re.search(r"(\w+)\s*(\[\])?$", part.strip())[1] for part in inside.split(",")]


def returns_nothing(declaration):
    return re.match(r"(DLC_CHECK\s+)?void\s+\w", declaration) is not None


def faults_of(comment, declaration):
    if comment is None:
        yield "has no comment"
        return
    text = plain(comment)
    if not re.fullmatch(r"[A-Z].*[.]", text.split("\n\n")[0], re.DOTALL):
        yield "the comment does not open with a sentence"
    documented = re.findall(r"@param\s*(?:\[[a-z,]+\])?\s+(\w+)", text)
    if documented != parameters(declaration):
        yield f"has parameters {parameters(declaration)}, documents {documented}"
    if "@return" not in text and not returns_nothing(declaration):
        yield "lacks @return"
    if "@since" not in text:
        yield "lacks @since"


def check(root):
    found = []
    n_functions = 0
    headers = sorted((root / "include").glob("**/*.h")) + sorted((root / "include").glob("**/*.h.in"))
    error_map = (root / "include/dlclient/error.h").read_text()
    known = {f"DLC_E_{name}" for name in re.findall(r"X\(\d+, (\w+),", error_map)}
    for path in headers:
        text = path.read_text()
        where = path.relative_to(root)
        for match in FUNCTION.finditer(text):
            n_functions += 1
            name = re.search(r"(\w+)\s*\(", match["declaration"])[1]
            found += [f"{where}: {name} {fault}"
                      for fault in faults_of(match["comment"], match["declaration"])]
        for code in sorted(set(re.findall(r"-(DLC_E_[A-Z_]+)", text)) - known):
            found.append(f"{where}: {code} is not in DLC_ERROR_MAP")
    return found, n_functions


def main():
    found, n_functions = check(pathlib.Path(sys.argv[1]))
    for line in found:
        print(line)
    print(f"{n_functions} public functions, {len(found)} faults")
    return 1 if found or n_functions == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
