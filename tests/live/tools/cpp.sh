#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cpp.sh BUILD: the C++ headers, compiled by each compiler that is here for C++17 and C++20, and used.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"

make_place 1 256MiB
driver_folder

# compile NAME COMPILER STANDARD
compile() {
        "$2" "-std=c++$3" -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror -I"$source_folder/include" \
                -isystem "${CUDA_HOME:-/usr/local/cuda}/include" "$source_folder/tests/live/client/test_cpp.cc" \
                -o "$place/$1" -L"$place/lib" "${link_client[@]}" -lcuda -pthread
}

# holds NAME: each of its cases.
holds() {
        "$place/$1" >"$place/said" || { grep -v '^ok' "$place/said"; return 1; }
        grep -q '^1\.\.[1-9]' "$place/said"
}

start_daemon --device-bytes 256MiB
n_compilers=0
for compiler in g++ clang++; do
        command -v "$compiler" >/dev/null || continue
        n_compilers=$((n_compilers + 1))
        for standard in 17 20; do
                name=$compiler-$standard
                ok "$compiler compiles it for C++$standard without a warning" compile "$name" "$compiler" "$standard"
                ok "its program holds" holds "$name"
        done
done
[ "$n_compilers" -gt 0 ] || skip "the C++ headers" "there is no C++ compiler"
ok "nothing stays charged" wait_until 20 nothing_charged
status=0
stop_daemon || status=$?
ok "the daemon ends in order" equal "$status" 0
done_testing
