#!/usr/bin/env python3
"""Compares what libdlclient.so exports with what is promised.

  check_symbols.py LIBRARY MAP HEADER...

Three lists must be the same: the version map, the symbols that the library defines, and what the
headers declare DLC_PUBLIC. (The linker accepts a map that names a symbol nobody defined.)
"""

import pathlib
import re
import subprocess
import sys


def from_map(path):
    """{symbol: version node}; a node is closed for ever once it was released."""
    symbols = {}
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    for node, body in re.findall(r"(\w+(?:\.\d+)*)\s*\{(.*?)\}", text, re.DOTALL):
        part = body.split("local:")[0].replace("global:", "")
        for symbol in re.findall(r"([^\s;]+)\s*;", part):
            symbols[symbol] = node
    return symbols


def from_library(path):
    """{symbol: version node} of what the library defines for others."""
    out = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", str(path)],
                         check=True, capture_output=True, text=True).stdout
    symbols = {}
    for line in out.splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":  # the version nodes themselves
            symbol, _, node = name.partition("@@")
            symbols[symbol] = node
    return symbols


def from_headers(paths):
    found = set()
    for path in paths:
        for declaration in re.findall(r"^DLC_PUBLIC\s+([^;{]+);", path.read_text(), re.MULTILINE):
            found.add(re.search(r"(\w+)\s*\(", declaration)[1])
    return found


def main():
    library, version_map, *headers = map(pathlib.Path, sys.argv[1:])
    promised = from_map(version_map)
    exported = from_library(library)
    declared = from_headers(headers)
    faults = []
    for symbol in sorted({*promised, *exported, *declared}):
        places = [("the map", symbol in promised), ("the library", symbol in exported),
                  ("the headers", symbol in declared)]
        faults += [f"{symbol}: not in {where}" for where, there in places if not there]
        if symbol in promised and symbol in exported and promised[symbol] != exported[symbol]:
            faults.append(f"{symbol}: {promised[symbol]} in the map, {exported[symbol]} in the library")
    for fault in faults:
        print(fault)
    print(f"{len(declared)} declared, {len(promised)} in the map, {len(exported)} exported, "
          f"{len(faults)} faults")
    return 1 if faults or not declared else 0


if __name__ == "__main__":
    sys.exit(main())
