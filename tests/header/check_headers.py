#!/usr/bin/env python3
"""Compiles the public headers as their users do.

  check_headers.py ... alone          each header, alone and twice, its INIT macros used
  check_headers.py ... dlpack COPY    with that copy of dlpack.h before and after ours

Exits with 0, 1 (does not compile), or 77 (that copy cannot be had here).
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

SKIP = 77
WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
COMPILERS = [("gcc", "c99"), ("clang", "c99"), ("g++", "c++11"), ("clang++", "c++11")]
LAYOUT = pathlib.Path(__file__).with_name("dlpack_layout.h")

# Where copies of dlpack.h come from: (kind, package, the file in it, the version it must name).
COPIES = {
    "none": None,
    "debian": ("deb", "libdlpack-dev", "usr/include/dlpack/dlpack.h", None),
    "debian-pytorch": ("deb", "libtorch-dev", "usr/include/ATen/dlpack.h", None),
    "pypi-1.0": ("wheel", "cuda-core==0.2.0", "cuda/core/experimental/dlpack.h", "1.0"),
    "pypi-1.1": ("wheel", "cuda-core==0.3.2", "cuda/core/experimental/dlpack.h", "1.1"),
    "pypi-1.2": ("wheel", "apache-tvm-ffi==0.1.3", "tvm_ffi/include/dlpack/dlpack.h", "1.2"),
    "pypi-1.3": ("wheel", "apache-tvm-ffi==0.1.15.post2", "tvm_ffi/include/dlpack/dlpack.h", "1.3"),
    "pytorch-installed": ("module", "torch", "include/ATen/dlpack.h", None),
}


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIP)


def run(command, folder=None, seconds=60):
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds)
    except FileNotFoundError:
        skip(f"there is no {command[0]} here")
    except subprocess.TimeoutExpired:
        skip(f"'{' '.join(command)}' does not answer")


def from_deb(package, folder):
    got = run(["apt-get", "download", "-q", package], folder)
    archives = list(folder.glob("*.deb"))
    if got.returncode != 0 or not archives:
        skip(f"the distribution gives no {package}: {got.stderr.strip()[-200:]}")
    run(["dpkg", "-x", str(archives[0]), str(folder)])


def from_wheel(package, folder):
    got = run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
               "--implementation=cp", "--python-version=3.11", "--platform=manylinux2014_x86_64",
               "--platform=manylinux_2_24_x86_64", "--platform=manylinux_2_28_x86_64",
               "--retries=1", "--timeout=20", "-d", str(folder), package], seconds=120)
    archives = list(folder.glob("*.whl"))
    if got.returncode != 0 or not archives:
        skip(f"PyPI gives no {package}: {got.stderr.strip()[-200:]}")
    with zipfile.ZipFile(archives[0]) as archive:
        archive.extractall(folder)


def from_module(name, folder):
    got = run([sys.executable, "-c",
               f"import importlib.util as u; print(u.find_spec('{name}').origin)"])
    if got.returncode != 0:
        skip(f"{name} is not installed")
    folder.rmdir()
    folder.symlink_to(pathlib.Path(got.stdout.strip()).parent)


def fetch(copy, cache):
    """The folder that holds this copy as dlpack.h; fetched once per build folder."""
    kind, package, path, version = COPIES[copy]
    folder = cache / copy
    if not (folder / path).is_file():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        {"deb": from_deb, "wheel": from_wheel, "module": from_module}[kind](package, folder)
    text = (folder / path).read_text()
    major, minor = (re.search(rf"define DLPACK_{part}_VERSION (\d+)", text)
                    for part in ("MAJOR", "MINOR"))
    old = re.search(r"define DLPACK_VERSION (\d+)", text)
    found = f"{major[1]}.{minor[1]}" if major else old[1] if old else "unknown"
    if version and found != version:
        sys.exit(f"{package} has dlpack.h {found}, not {version}: mend the table of this test")
    print(f"{copy}: dlpack.h {found} from {package}")
    return (folder / path).parent


def compile_all(sources, include_paths):
    """How many of the sources fail, over all compilers that are here."""
    failures = 0
    used = [(name, standard) for name, standard in COMPILERS if shutil.which(name)]
    if not used:
        sys.exit("no compiler found")
    with tempfile.TemporaryDirectory() as folder:
        for title, text in sources:
            for compiler, standard in used:
                path = pathlib.Path(folder, "use.c" if standard == "c99" else "use.cc")
                path.write_text(text)
                got = run([compiler, f"-std={standard}", *WARNINGS, "-fsyntax-only",
                           *[f"-I{path}" for path in include_paths], str(path)])
                if got.returncode != 0:
                    failures += 1
                    print(f"{title}: {compiler} -std={standard}\n{got.stderr}")
    print(f"{len(sources)} sources, {len(used)} compilers, {failures} failures")
    return failures


def use_of_options(text):
    """Code that uses every INIT macro of a header, so that a field that lacks is seen."""
    code = ""
    for macro in re.findall(r"#define (DLC_\w+_OPTIONS_INIT)", text):
        struct = macro.removesuffix("_INIT").lower()
        code += f"struct {struct} use_{struct} = {macro};\n"
    return code


def alone(include):
    sources = []
    for path in sorted([*include.glob("*.h"), *include.glob("dlclient/*.h")]):
        name = path.relative_to(include)
        sources.append((str(name), f"#include <{name}>\n#include <{name}>\nint used;\n"
                        + use_of_options(path.read_text())))
    sources.append(("dlclient/version.h", "#include <dlclient/version.h>\nint used;\n"))
    return sources


def with_dlpack(copy):
    body = f'#include "{LAYOUT}"\n'
    if copy == "none":
        return [("dlclient_dlpack.h alone", "#include <dlclient_dlpack.h>\n" + body)]
    theirs = "#include <dlpack.h>\n"
    ours = "#include <dlclient.h>\n"
    both = "#include <dlclient_dlpack.h>\n"
    return [
        ("theirs, dlclient.h", theirs + ours + "int used;\n"),
        ("dlclient.h, theirs", ours + theirs + "int used;\n"),
        ("theirs, dlclient_dlpack.h", theirs + both + body),
        ("dlclient_dlpack.h, theirs", both + theirs + body),
        ("dlclient.h, theirs, dlclient_dlpack.h", ours + theirs + both + body),
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", type=pathlib.Path, required=True)
    parser.add_argument("--generated", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("what", choices=["alone", "dlpack"])
    parser.add_argument("copy", nargs="?", choices=COPIES)
    args = parser.parse_args()
    paths = [args.include, args.generated]
    if args.what == "alone":
        sources = alone(args.include)
    else:
        sources = with_dlpack(args.copy)
        if COPIES[args.copy]:
            paths.append(fetch(args.copy, args.cache))
    return 1 if compile_all(sources, paths) else 0


if __name__ == "__main__":
    sys.exit(main())
