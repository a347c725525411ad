#!/bin/bash
# Everything a change must pass: format, all builds, all tests, the installed package.
#
#   scripts/check.sh            all of it
#   scripts/check.sh --quick    format and the dev build with its tests
#
# Installs what is missing (scripts/install-deps.sh). Exits with 0 only if all went well.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1

presets="dev asan tsan clang"
case "${1:-}" in
  --quick) presets="dev" ;;
  "") ;;
  *) echo "usage: $0 [--quick]" >&2; exit 2 ;;
esac

# These look at the source, the headers or the installed files: once is enough.
once='^(meta|header|install|model|litmus)$'
never='^bench$'

report=()
failures=0
passed=0
failed=0
skipped=0
started=$SECONDS

note() { # note RESULT WHAT
  report+=("$(printf '%-7s %s' "$1" "$2")")
  [ "$1" != FAILED ] || failures=$((failures + 1))
}

step() {
  printf '\n== %s (%d s)\n' "$*" $((SECONDS - started))
}

# Another release of clang-format lays the same style out differently.
format_version=14
can_check_format() {
  clang-format --version | grep -q "version $format_version\."
}

check_format() {
  local files
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    mapfile -t files < <(git ls-files -co --exclude-standard '*.c' '*.h')
  else
    mapfile -t files < <(find . -path ./build -prune -o -name '*.[ch]' -print)
  fi
  clang-format --dry-run -Werror "${files[@]}"
}

# A thread sanitizer of this age needs a plain address space; not every container lets us ask.
plain_address_space() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R "$@"
  else
    "$@"
  fi
}

build() {
  local log=build/$1.log
  mkdir -p build
  if cmake --preset "$1" >"$log" 2>&1 && cmake --build --preset "$1" >>"$log" 2>&1; then
    grep -E 'warning:' "$log" || true
    return 0
  fi
  grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Generating)' "$log" | tail -n 200
  return 1
}

# ctest's own closing line is the source of the numbers.
count() { # count LOG
  local n_failed n_all n_skipped
  n_all=$(sed -n 's/.*tests failed out of \([0-9]*\)$/\1/p' "$1" | tail -n 1)
  n_failed=$(sed -n 's/.*, \([0-9]*\) tests failed out of [0-9]*$/\1/p' "$1" | tail -n 1)
  n_skipped=$(grep -c '\*\*\*Skipped' "$1")
  passed=$((passed + ${n_all:-0} - ${n_failed:-0} - n_skipped))
  failed=$((failed + ${n_failed:-0}))
  skipped=$((skipped + n_skipped))
}

run_tests() {
  local log=build/$1.tests.log without=$never
  [ "$1" = dev ] || without="$once|$never"
  plain_address_space ctest --preset "$1" -j 2 -LE "$without" 2>&1 | tee "$log" |
    grep -vE '^ +Start +[0-9]+:'
  local code=${PIPESTATUS[0]}
  count "$log"
  return "$code"
}

step "packages"
scripts/install-deps.sh build test || exit 1

step "format"
if ! can_check_format; then
  note skipped "format (wants clang-format $format_version)"
elif check_format; then
  note ok "format"
else
  note FAILED "format (clang-format -i FILE mends it)"
fi

for preset in $presets; do
  step "build $preset"
  if ! build "$preset"; then
    note FAILED "build $preset"
    continue
  fi
  step "tests $preset"
  if run_tests "$preset"; then note ok "$preset"; else note FAILED "tests of $preset"; fi
done

step "summary"
printf '%s\n' "${report[@]}"
[ "$skipped" -eq 0 ] || { echo "skipped:"; grep -h '\*\*\*Skipped' build/*.tests.log | sort -u; }
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failures" -eq 0 ] && [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
