#!/bin/bash
# Shows what dlpackd is for, in about a minute, on real data: one process publishes a scan of a
# head, two others get it without a copy. Installs what is missing, builds, cleans up.
#
#   scripts/quickstart.sh          (as root, or as a user with sudo)
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/release
scan=/usr/share/mricron/templates/ch2better.nii.gz
name=scans/head

say() {
  printf '\n\033[1m%s\033[0m\n' "$*"
}
[ -t 1 ] || say() {
  printf '\n%s\n' "$*"
}

build_release() {
  local log
  log=$(mktemp)
  if ! { cd "$root" && cmake --preset release && cmake --build --preset release; } >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "quickstart: the build failed" >&2
    exit 1
  fi
  rm -f "$log"
}

program() {
  local path
  path=$(find "$build" -type f -name "$1" -perm -u+x | head -n 1)
  [ -n "$path" ] || { echo "quickstart: the build made no $1" >&2; exit 1; }
  echo "$path"
}

# --- processes: every one is ours, known by its number, and ended at the end ---------------------

pids=()
start() { # start OUTPUT PROGRAM ARGUMENTS...
  local output=$1
  shift
  "$@" >"$output" 2>"$output.err" &
  pids+=($!)
  last_pid=$!
}

clean_up() {
  local pid
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null || true
  done
  for pid in "${pids[@]}"; do
    wait "$pid" 2>/dev/null || true
  done
  pids=()
  rm -rf "$tmp"
}

# Waits until a program has said what it found, passes that on, and leaves the program running.
hear() { # hear OUTPUT PID
  local tries=0
  until grep -q '^ready$' "$1"; do
    if ! kill -0 "$2" 2>/dev/null || [ $((tries += 1)) -gt 600 ]; then
      cat "$1" "$1.err" >&2
      echo "quickstart: a program failed" >&2
      exit 1
    fi
    sleep 0.05
  done
  grep -v '^ready$' "$1" | sed 's/^/  /'
}

wait_for_daemon() {
  local tries=0
  until "$dlctl" ping >"$tmp/ping" 2>&1; do
    if ! kill -0 "$1" 2>/dev/null || [ $((tries += 1)) -gt 200 ]; then
      cat "$tmp/ping" "$tmp/daemon.err" >&2
      echo "quickstart: the daemon did not start" >&2
      exit 1
    fi
    sleep 0.05
  done
}

# --- memory, as the kernel counts it ---------------------------------------------------------------

# Rss: shared pages that this process has in its tables. Pss: the same, each page divided by the
# number of processes that share it; so the Pss of all of them is what the machine really spends.
shared_kb() { # shared_kb PID Rss|Pss
  awk -v what="$2:" '
    /^[0-9a-f]+-[0-9a-f]+ / { ours = ($6 ~ /^\/memfd:/) }
    ours && $1 == what { sum += $2 }
    END { print sum + 0 }' "/proc/$1/smaps"
}

show_memory() { # show_memory ROLE PID ROLE PID ...
  local rss pss
  rss_sum=0 pss_sum=0
  printf '  %-14s %12s %12s\n' '' 'mapped (Rss)' 'share (Pss)'
  while [ $# -gt 0 ]; do
    rss=$(shared_kb "$2" Rss)
    pss=$(shared_kb "$2" Pss)
    rss_sum=$((rss_sum + rss)) pss_sum=$((pss_sum + pss))
    printf '  %-14s %9d kB %9d kB\n' "$1" "$rss" "$pss"
    shift 2
  done
  printf '  %-14s %9d kB %9d kB\n' 'together' "$rss_sum" "$pss_sum"
}

# -----------------------------------------------------------------------------------------------------

say "1. What is needed: packages of the distribution, and a build in build/release"
"$root/scripts/install-deps.sh" build quickstart
build_release
dlpackd=$(program dlpackd)
dlctl=$(program dlctl)
publish=$(program publish_volume)
read_volume=$(program read_volume)
echo "  $("$dlpackd" --version)"

tmp=$(mktemp -d)
trap clean_up EXIT
trap 'exit 130' INT TERM
export DLPACKD_SOCKET=$tmp/socket
unset DLPACKD_NAMESPACE

say "2. A daemon of our own, on a socket in a temporary folder"
start "$tmp/daemon" "$dlpackd" --socket "$DLPACKD_SOCKET"
daemon_pid=$last_pid
wait_for_daemon "$daemon_pid"
"$dlctl" ping | sed 's/^/  /'

say "3. One process publishes a scan of a human brain (from Debian's package mricron-data)"
gzip -dc "$scan" >"$tmp/scan.nii"
start "$tmp/publisher" "$publish" "$name" "$tmp/scan.nii"
publisher_pid=$last_pid
hear "$tmp/publisher" "$publisher_pid"

say "4. Two others, started independently, get it by its name and compute something of it"
start "$tmp/first" "$read_volume" size "$name"
first_pid=$last_pid
start "$tmp/second" "$read_volume" centre "$name"
second_pid=$last_pid
hear "$tmp/first" "$first_pid"
hear "$tmp/second" "$second_pid"

say "5. What the daemon knows: dlctl list"
"$dlctl" list | sed 's/^/  /'

say "6. What it costs in memory, as the kernel counts it"
show_memory publisher "$publisher_pid" 'first reader' "$first_pid" 'second reader' "$second_pid"
size_kb=$(($(gzip -dc "$scan" | wc -c) / 1024))

say "7. A reader tries to write into what it got"
"$read_volume" write "$name" >"$tmp/write"
sed 's/^/  /' "$tmp/write"

say "8. The publisher is killed (SIGKILL), with two readers still holding the scan"
kill -KILL "$publisher_pid"
wait "$publisher_pid" 2>/dev/null || true
tries=0
until [ -z "$("$dlctl" list --json "$name" | grep -F "\"$name\"" || true)" ]; do
  [ $((tries += 1)) -le 100 ] || { echo "quickstart: the name is still there" >&2; exit 1; }
  sleep 0.05
done
kill -0 "$first_pid" && kill -0 "$second_pid"
kept_kb=$(shared_kb "$first_pid" Rss)
echo "  the name is gone; both readers live, and still have $kept_kb kB each"

clean_up
trap - EXIT

say "What this showed"
cat <<TEXT
  Three processes worked on the same scan of $size_kb kB. Each had all of it in its address space
  ($rss_sum kB, added up), yet together they cost $pss_sum kB of memory: it is there once, and
  nobody copied it. No reader could change it: the kernel does not let it. When its publisher was
  killed its name went at once, and those who held it kept every byte.
  The daemon is stopped and the temporary folder removed; build/release stays.
  Next: the first tensor in 20 lines of C, in README.md.
TEXT
[ "$pss_sum" -lt $((size_kb * 12 / 10)) ] || { echo "quickstart: memory holds it more than once" >&2; exit 1; }
