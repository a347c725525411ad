#!/usr/bin/env python3
"""Holds the direction of dependencies: who may include what.

  check_layers.py ROOT         exits with 1 and a line per wrong #include
  check_layers.py --prove ROOT also copies ROOT, plants wrong includes, and wants each one found
"""

import pathlib
import re
import shutil
import sys
import tempfile

# The layer of a file: the first pattern that matches its path.
LAYERS = [
    ("include", r"include/"),
    ("packet", r"common/packet\."),
    ("common", r"common/"),
    ("codec", r"proto/codec"),
    ("proto", r"proto/"),
    ("core", r"daemon/core/"),
    ("loop", r"daemon/io/loop\."),
    ("io", r"daemon/io/"),
    ("daemon", r"daemon/"),
    ("client", r"client/"),
    ("cli", r"cli/"),
    ("examples", r"examples/"),
    ("bench", r"bench/"),
    ("tests", r"tests/"),
]

# layer: the layers whose headers it may include, besides its own.
MAY_USE = {
    "include": [],
    "packet": ["common"],
    "common": [],
    "codec": ["proto", "common"],
    "proto": ["common"],
    "core": ["common", "proto"],
    "loop": ["common", "io"],
    "io": ["loop", "core", "codec", "proto", "packet", "common"],
    "daemon": ["io", "loop", "core", "codec", "proto", "packet", "common", "include"],
    "client": ["include", "codec", "proto", "packet", "common"],
    "cli": ["include"],
    "examples": ["include"],
    "bench": ["include"],
    "tests": [name for name, _ in LAYERS],
}

# Headers that are made in the build folder, and the layer they count to.
GENERATED = {"dlclient/version.h": "include", "proto/dlpackd.pb-c.h": "codec",
             "dlpackd.pb-c.h": "codec"}

# What a library's header is called, and the only layers that may include it.
LIBRARIES = [
    (r"uv(/.*)?\.h$", ["loop"]),
    (r"protobuf-c/", ["codec"]),
    (r"jansson\.h$", ["cli", "io", "daemon", "tests"]),
    (r"dlpack(/dlpack)?\.h$", []),
    (r"cuda.*\.h$", []),
    (r"cmocka\.h$", ["tests"]),
]

# Pure layers: the only headers of the system that they may include.
PURE = {
    "include": r"std(def|int)\.h$",
    "core": r"(assert|ctype|errno|inttypes|limits|std(arg|bool|def|int|io|lib)|string|strings)\.h$",
    "proto": r"(assert|errno|inttypes|limits|std(arg|atomic|bool|def|int|io|lib)|string)\.h$",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def layer_of(path):
    for name, pattern in LAYERS:
        if re.match(pattern, path):
            return name
    return None


def resolve(root, source, header):
    """The path, below root, of one of our headers; None if it is not ours."""
    for folder in (source.parent, root, root / "daemon", root / "include"):
        candidate = folder / header
        if candidate.is_file() and root in candidate.resolve().parents:
            return str(candidate.resolve().relative_to(root))
    return None


def complaint(root, source, header):
    layer = layer_of(str(source.relative_to(root)))
    if header in GENERATED:
        used = GENERATED[header]
    else:
        ours = resolve(root, source, header)
        used = layer_of(ours) if ours else None
    if used:
        if used == layer or used in MAY_USE[layer]:
            return None
        return f"{layer} may not use {used}"
    for pattern, layers in LIBRARIES:
        if re.match(pattern, header):
            return None if layer in layers else f"{layer} may not use that library"
    if layer in PURE and not re.match(PURE[layer], header):
        return f"{layer} is pure: no such header of the system"
    return None


def sources(root):
    for _, pattern in LAYERS:
        for path in root.glob(pattern.split("/")[0] + "/**/*.[ch]"):
            yield path


def check(root):
    root = root.resolve()
    found = []
    n_includes = 0
    for source in sorted(set(sources(root))):
        for match in INCLUDE.finditer(source.read_text()):
            n_includes += 1
            reason = complaint(root, source, match[2])
            if reason:
                found.append(f"{source.relative_to(root)}: #include {match[2]}: {reason}")
    return found, n_includes


PLANTS = [
    ("daemon/core/quota.c", "<sys/socket.h>"),
    ("daemon/core/quota.c", "<time.h>"),
    ("daemon/core/quota.c", "<pthread.h>"),
    ("daemon/core/quota.c", '"io/log.h"'),
    ("daemon/core/quota.c", '"common/packet.h"'),
    ("daemon/core/quota.c", '"proto/codec.h"'),
    ("daemon/io/log.c", "<uv.h>"),
    ("client/client.c", "<uv.h>"),
    ("client/client.c", '"core/broker.h"'),
    ("common/tree.c", '"proto/message.h"'),
    ("proto/name.c", "<protobuf-c/protobuf-c.h>"),
    ("cli/main.c", '"common/cleanup.h"'),
    ("include/dlclient/client.h", "<stdbool.h>"),
    ("include/dlclient.h", '"proto/limits.h"'),
    ("examples/read_volume.c", '"proto/limits.h"'),
]


def prove(root):
    """A check that finds nothing proves nothing: plant each wrong include and look again."""
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "copy")
        for name in {pattern.split("/")[0] for _, pattern in LAYERS}:
            if (root / name).is_dir():
                shutil.copytree(root / name, copy / name)
        for path, header in PLANTS:
            target = copy / path
            text = target.read_text()
            target.write_text(f"#include {header}\n" + text)
            if not any(line.startswith(path) for line in check(copy)[0]):
                missed.append(f"an #include {header} in {path} was not found")
            target.write_text(text)
    return missed


def main():
    root = pathlib.Path(sys.argv[-1])
    found, n_includes = check(root)
    if not found and "--prove" in sys.argv:
        found = prove(root)
    for line in found:
        print(line)
    print(f"{n_includes} includes, {len(found)} wrong")
    return 1 if found or n_includes == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
