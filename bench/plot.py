#!/usr/bin/env python3
"""Draws what dlp_bench measured.

  plot.py ROWS.json FOLDER     latency.png (by size) and throughput.png (by clients)

What was not measured is left out; a picture without anything in it is not made.
"""

import json
import pathlib
import re
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  the backend is chosen first

UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def by_size(rows, suffix, key):
    """(bytes, microseconds), in order."""
    points = []
    for row in rows:
        match = re.fullmatch(rf"private\.(\d+)([KMG]iB){suffix}", row["name"])
        if match and row[key] is not None:
            points.append((int(match[1]) * UNITS[match[2]], row[key]))
    return sorted(points)


def by_clients(rows, suffix, key):
    """(clients, operations a second), in order."""
    points = []
    for row in rows:
        match = re.fullmatch(rf"clients\.(\d+){suffix}", row["name"])
        if match and row[key] is not None:
            points.append((int(match[1]), row[key]))
    return sorted(points)


def draw(path, title, labels, lines):
    lines = [(name, style, points) for name, style, points in lines if points]
    if not lines:
        print(f"{path.name}: nothing to draw was measured", file=sys.stderr)
        return
    figure, axes = plt.subplots(figsize=(8, 5))
    for name, style, points in lines:
        axes.plot(*zip(*points), style, label=name)
    axes.set(title=title, xlabel=labels[0], ylabel=labels[1], xscale="log", yscale=labels[2])
    axes.set_xscale("log", base=2)
    axes.grid(True, which="major", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    rows = json.loads(pathlib.Path(sys.argv[1]).read_text())
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    draw(folder / "latency.png", "get and its deleter, by size of the tensor",
         ("bytes", "microseconds, median", "log"),
         [("READ", "o-", by_size(rows, "_read", "value")),
          ("PRIVATE", "s-", by_size(rows, "", "value")),
          ("floor of PRIVATE: copy below 256 KiB, else a mapping", "k--",
           by_size(rows, "", "floor"))])
    draw(folder / "throughput.png", "first gets of all clients together",
         ("clients", "1/s", "linear"),
         [("on one core", "o-", by_clients(rows, "_pinned", "value")),
          ("echo, on one core", "k--", by_clients(rows, "_pinned", "floor")),
          ("on all cores", "s-", by_clients(rows, "_spread", "value")),
          ("echo, on all cores", "k:", by_clients(rows, "_spread", "floor"))])
    return 0


if __name__ == "__main__":
    sys.exit(main())
