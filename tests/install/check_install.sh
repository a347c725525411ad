#!/bin/bash
# Builds and installs a release into a temporary folder, and uses it as a stranger would:
# the first example of README.md, compiled outside the tree, exchanges a tensor with dlctl.
#
#   check_install.sh SOURCE_FOLDER
set -euo pipefail

source=$(cd "$1" && pwd)
tmp=$(mktemp -d)
prefix=$tmp/prefix
daemon_pid=

clean_up() {
  [ -z "$daemon_pid" ] || kill "$daemon_pid" 2>/dev/null || true
  wait
  rm -rf "$tmp"
}
trap clean_up EXIT

fail() {
  echo "install: $*" >&2
  exit 1
}

quietly() {
  "$@" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; fail "'$*' failed"; }
}

install_release() {
  quietly cmake -S "$source" -B "$tmp/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDLP_TESTS=OFF
  quietly cmake --build "$tmp/build" -j 2
  quietly cmake --install "$tmp/build" --prefix "$prefix"
}

# Each is a path below the prefix; "lib*" is lib, lib64 or lib/<machine>.
installed='bin/dlpackd
bin/dlctl
lib*/libdlclient.so
lib*/pkgconfig/dlclient.pc
lib*/cmake/dlclient/dlclientConfig.cmake
lib*/cmake/dlclient/dlclientConfigVersion.cmake
include/dlclient.h
include/dlclient_dlpack.h
include/dlclient/version.h
*/systemd/system/dlpackd.service
*/systemd/system/dlpackd.socket
*/systemd/user/dlpackd.service
*/systemd/user/dlpackd.socket
*/sysusers.d/dlpackd.conf
*/tmpfiles.d/dlpackd.conf
share/man/man1/dlctl.1
share/man/man5/dlpackd.conf.5
share/man/man7/dlclient.7
share/man/man8/dlpackd.8'

check_files() {
  local pattern missing=0
  while read -r pattern; do
    if [ -z "$(find "$prefix" -path "$prefix/$pattern" -print -quit)" ]; then
      echo "install: $pattern is not installed" >&2
      missing=1
    fi
  done <<<"$installed"
  [ "$missing" -eq 0 ] || { (cd "$prefix" && find . ! -type d) >&2; exit 1; }
  if grep -rlIF "$source" "$prefix" >&2; then
    fail "these files name the source folder"
  fi
}

# The first C program of README.md is the one that is tested, so it cannot rot.
extract_example() {
  awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md" \
    >"$tmp/exchange.c"
  [ -s "$tmp/exchange.c" ] || fail "README.md has no C program"
}

library_folder() {
  dirname "$(find "$prefix" -name libdlclient.so -print -quit)"
}

build_with_pkg_config() {
  local flags
  flags=$(PKG_CONFIG_PATH=$(library_folder)/pkgconfig pkg-config --cflags --libs dlclient)
  # shellcheck disable=SC2086
  quietly cc -std=c99 -Wall -Wextra -pedantic -Werror "$tmp/exchange.c" $flags -o "$tmp/by_pkg_config"
}

build_with_cmake() {
  mkdir "$tmp/consumer"
  cat >"$tmp/consumer/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(dlclient 0.1 REQUIRED)
add_executable(by_cmake ../exchange.c)
target_link_libraries(by_cmake PRIVATE dlclient::dlclient)
TEXT
  quietly cmake -S "$tmp/consumer" -B "$tmp/consumer/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
  quietly cmake --build "$tmp/consumer/build"
}

start_daemon() {
  local tries=0
  export DLPACKD_SOCKET=$tmp/socket
  unset DLPACKD_NAMESPACE
  "$prefix/bin/dlpackd" --socket "$DLPACKD_SOCKET" 2>"$tmp/daemon.log" &
  daemon_pid=$!
  until "$prefix/bin/dlctl" ping >/dev/null 2>&1; do
    if [ $((tries += 1)) -gt 200 ] || ! kill -0 "$daemon_pid"; then
      cat "$tmp/daemon.log" >&2
      fail "the daemon did not start"
    fi
    sleep 0.05
  done
}

# The program publishes six floats; the installed dlctl must see them, and hand them out.
exchange() { # exchange PROGRAM
  local name=demo/first values
  echo "$(basename "$1"): $(LD_LIBRARY_PATH=$(library_folder) "$1")"
  "$prefix/bin/dlctl" list "$name" | grep -F "$name" >"$tmp/row" || fail "dlctl list does not show $name"
  grep -q float32 "$tmp/row" || fail "dlctl list does not say float32"
  "$prefix/bin/dlctl" get "$name" "$tmp/first.npy"
  values=$(tail -c 24 "$tmp/first.npy" | od -A n -t f4 | tr -s ' \n' ' ')
  [ "$values" = " 1 2 3 4 5 6 " ] || fail "dlctl get gave$values"
  "$prefix/bin/dlctl" rm "$name"
  rm "$tmp/first.npy"
}

install_release
check_files
extract_example
build_with_pkg_config
build_with_cmake
start_daemon
exchange "$tmp/by_pkg_config"
exchange "$tmp/consumer/build/by_cmake"
echo "install: $(find "$prefix" ! -type d | wc -l) files, two programs built outside the tree, tensors equal"
