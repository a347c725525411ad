#!/bin/bash
# Runs every fuzz target for a while.
#
#   scripts/fuzz.sh [--seconds N]      N seconds for each target; 60 if not said
#
# New inputs are kept in build/fuzz/corpus, what crashes in build/fuzz/crashes.
set -euo pipefail

cd "$(dirname "$0")/.."

seconds=60
case "${1:-}" in
  --seconds) seconds=${2:?--seconds needs a number} ;;
  "") ;;
  *) echo "usage: $0 [--seconds N]" >&2; exit 2 ;;
esac
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz: '$seconds' is not a number of seconds" >&2; exit 2; }

scripts/install-deps.sh build test
cmake --preset fuzz
cmake --build --preset fuzz

mapfile -t targets < <(find build/fuzz/tests/fuzz -maxdepth 1 -type f -name 'fuzz_*' -perm -u+x | sort)
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: the build made no target" >&2; exit 1; }

bad=0
mkdir -p build/fuzz/crashes
for target in "${targets[@]}"; do
  name=$(basename "$target")
  corpus=build/fuzz/corpus/$name
  seeds=tests/fuzz/corpus/${name#fuzz_}
  mkdir -p "$corpus"
  folders=("$corpus")
  [ ! -d "$seeds" ] || folders+=("$seeds")
  echo "== $name: $seconds s"
  if ! "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/crashes/$name-" "${folders[@]}"; then
    echo "fuzz: $name failed; its input is in build/fuzz/crashes" >&2
    bad=$((bad + 1))
  fi
done
echo "${#targets[@]} targets, $bad failed"
[ "$bad" -eq 0 ]
