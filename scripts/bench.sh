#!/bin/bash
# Measures what dlpackd claims, beside the least that does the same, on this machine.
#
#   scripts/bench.sh [--json FILE] [--plot FOLDER] [--only PATTERN] [--quick]
#
#   --json FILE      the rows for programs
#   --plot FOLDER    latency.png and throughput.png; needs python3-matplotlib
#                    (scripts/install-deps.sh bench)
#   --only PATTERN   these measurements: a glob such as 'get_*'; a wrong one lists them all
#   --quick          a quarter of the samples
#
# Builds what it needs in build/bench and starts a daemon of its own. Exits with 0 if
# everything was measured, whether the bars hold or not. bench/README.md explains the table.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/bench

usage() {
  sed -n 's/^#   \(scripts.*\)/usage: \1/p' "$0" >&2
  exit 2
}

json=''
plot=''
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --json) [ $# -ge 2 ] || usage; json=$2; shift 2 ;;
    --plot) [ $# -ge 2 ] || usage; plot=$2; shift 2 ;;
    --only) [ $# -ge 2 ] || usage; arguments+=(--only "$2"); shift 2 ;;
    --quick) arguments+=(--quick); shift ;;
    --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) usage ;;
  esac
done

# Of the interpreters that can draw, the first: the package is the distribution's own one's.
find_python() {
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import matplotlib' 2>/dev/null; then
      return 0
    fi
  done
  return 1
}

# Before minutes are spent.
if [ -n "$plot" ] && ! find_python; then
  echo "bench: no plot without matplotlib; scripts/install-deps.sh bench installs it" >&2
  exit 1
fi

build_all() {
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DDLP_TESTS=OFF -DDLP_EXAMPLES=OFF -DDLP_BENCH=ON
  cmake --build "$build" --target dlp_bench dlpackd
}

"$root/scripts/install-deps.sh" build
mkdir -p "$build"
if ! build_all >"$build/build.log" 2>&1; then
  cat "$build/build.log" >&2
  exit 1
fi

rows=${json:-$build/rows.json}
code=0
"$build/bench/dlp_bench" --json "$rows" "${arguments[@]}" || code=$?
if [ -n "$plot" ] && [ "$code" -ne 2 ]; then
  "$python" "$root/bench/plot.py" "$rows" "$plot" || code=1
fi
exit "$code"
