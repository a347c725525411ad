#!/bin/sh
# Installs what dlpackd needs from the distribution (Debian 12, Debian 13). This is the one
# place that names packages.
#
#   scripts/install-deps.sh [build] [test] [bench] [quickstart]      (no group: build and test)
#
# Needs root or sudo only if something is missing; may it use neither, it prints the
# command that would do it, and fails.
set -eu

packages_of() {
  case $1 in
    build)
      echo "gcc libc6-dev cmake ninja-build pkg-config libuv1-dev libprotobuf-c-dev" \
        "protobuf-c-compiler libjansson-dev" ;;
    test)
      echo "g++ libcmocka-dev python3 python3-numpy python3-pip clang clang-format valgrind spin" \
        "libclang-rt-dev $(if_known libdlpack-dev)" ;;
    bench)
      echo "python3 python3-matplotlib" ;;
    quickstart)
      echo "gzip mricron-data" ;;
    *)
      echo "usage: $0 [build] [test] [bench] [quickstart]" >&2
      return 2 ;;
  esac
}

# For packages that not every release of the distribution has, and that can be done without.
if_known() {
  if apt-cache show --no-all-versions "$1" >/dev/null 2>&1; then
    echo "$1"
  fi
}

installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Sets `missing`.
find_missing() {
  missing=
  for group in $groups; do
    for package in $(packages_of "$group"); do
      installed "$package" || missing="$missing $package"
    done
  done
  missing=${missing# }
}

# A password is asked for only where somebody can type it.
may_be_root() {
  [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; } 2>/dev/null
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

run_quietly() {
  output=$(mktemp)
  if as_root "$@" >"$output" 2>&1; then
    rm -f "$output"
  else
    code=$?
    cat "$output" >&2
    rm -f "$output"
    echo "install-deps: '$*' failed" >&2
    exit "$code"
  fi
}

groups=${*:-build test}
for group in $groups; do
  packages_of "$group" >/dev/null
done
if ! command -v apt-get >/dev/null; then
  echo "install-deps: this is not a Debian system. Install by hand what corresponds to:" >&2
  for group in $groups; do packages_of "$group" >&2; done
  exit 1
fi

# A machine that never ran 'apt-get update' knows no package: what is optional could be missed.
lists_are_empty() {
  [ -z "$(apt-cache search --names-only '^libuv1-dev$' 2>/dev/null)" ]
}

find_missing
if [ -z "$missing" ] && ! lists_are_empty; then
  exit 0
fi
if ! may_be_root; then
  [ -n "$missing" ] || exit 0
  echo "install-deps: packages are missing, and this user may not install them. As root, run:" >&2
  echo "  apt-get update && apt-get install --no-install-recommends $missing" >&2
  exit 1
fi
# shellcheck disable=SC2086
if lists_are_empty || ! apt-get install --simulate --no-install-recommends $missing >/dev/null 2>&1
then
  echo "install-deps: apt-get update"
  run_quietly apt-get update -q
  find_missing
fi
if [ -n "$missing" ]; then
  echo "install-deps: installing $missing"
  # shellcheck disable=SC2086
  run_quietly env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
    --no-install-recommends $missing
fi
