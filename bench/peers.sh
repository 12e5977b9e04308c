#!/bin/bash
# peers.sh BUILD FOLDER [NAME SECONDS]: gpumem-bench peers against a gpumemd of its own, on the driver that
# GPUMEM_CUDA_LIBRARY names, or the GPU's where there is one, or the emulated one; the comparison NAME alone, for
# so long at most. Pinned memory is measured a second time with huge pages, where there are none but may be. The
# rows go to FOLDER/peers.json and FOLDER/peers-huge.json too, or to FOLDER/peers-NAME.json.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
output=$(cd "$2" && pwd)
# shellcheck source=tests/daemon.sh
. "$source_folder/tests/daemon.sh"

# The others find a GPU by themselves: no figure of the emulated driver is to stand beside theirs.
[ ! -e /dev/nvidiactl ] || export GPUMEM_CUDA_LIBRARY=${GPUMEM_CUDA_LIBRARY:-libcuda.so.1}

n_huge_pages=600
seconds_huge=40

# measure FILE ARGUMENT...: with a daemon of its own; the exit status is the worst so far.
measure() {
        local file=$1 status=0
        shift
        start_daemon --pinned-bytes 3GiB
        gpumem-bench peers --peers "$source_folder/bench/peers" --output "$file" "$@" || status=$?
        stop_daemon
        [ "$status" -le "$worst" ] || worst=$status
}

# What the files of the kernel say, added up.
add_huge_pages() {
        cat /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages 2>/dev/null | add_up
}

# set_huge_pages N: on every node; fails where that is not allowed.
set_huge_pages() {
        local file
        for file in /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages; do
                { echo "$1" >"$file"; } 2>/dev/null || return 1
        done
}

give_huge_pages_back() {
        set_huge_pages 0 || true
        clear_place
}

worst=0
# Sparse where it is emulated: what nobody writes to costs nothing.
make_place 1 256GiB
PATH=$build/bench:$PATH
traces=("$source_folder"/bench/traces/*.trace.gz)
if [ $# -gt 2 ]; then
        measure "$output/peers-$3.json" --only "$3" --seconds "$4" "${traces[@]}"
        exit "$worst"
fi
measure "$output/peers.json" "${traces[@]}"
if ! is_emulated && [ "$(add_huge_pages)" -eq 0 ]; then
        trap give_huge_pages_back EXIT
        if set_huge_pages "$n_huge_pages" && [ "$(add_huge_pages)" -ge "$n_huge_pages" ]; then
                echo
                measure "$output/peers-huge.json" --only pinned --seconds "$seconds_huge"
        else
                echo "gpumem-bench: no huge pages can be had" >&2
        fi
fi
exit "$worst"
