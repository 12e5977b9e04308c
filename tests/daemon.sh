#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A gpumemd of one's own, for scripts to source: in a folder of its own, on the emulated driver, or
# on the one that GPUMEM_CUDA_LIBRARY names (libcuda.so.1: a GPU's).
# The script's first argument is the build folder. What is here sets `build`, `source_folder`, `place` (the
# daemon's folder), `n_devices` and `daemon` (the process), and sources tap.sh.

source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"

# On a GPU others allocate too, and the daemon's own tables grow: a device's use may differ by so
# much and yet be what it was.
gpu_tolerance_mib=64

is_emulated() {
        local driver=${GPUMEM_CUDA_LIBRARY:-libcuda-emu.so}
        [ "${driver##*/}" = libcuda-emu.so ]
}

# What a user set for himself must not steer what is checked. The driver is chosen by two of these, and
# there are settings for tests.
forget_settings() {
        local name
        for name in "${!GPUMEM_@}"; do
                case $name in
                GPUMEM_CUDA_LIBRARY | GPUMEM_NVML_LIBRARY | GPUMEM_EMULATOR | GPUMEM_TEST_*) ;;
                *) unset "$name" ;;
                esac
        done
}

# Where many megabytes may go for a while: shared memory if there is enough of it, else a disk.
roomy_folder() {
        local free_kib=0
        if [ -w /dev/shm ]; then
                free_kib=$(df --output=avail -k /dev/shm | tail -n 1)
        fi
        if [ "$free_kib" -gt $((4 * 1024 * 1024)) ]; then
                echo /dev/shm
        else
                echo "${TMPDIR:-/tmp}"
        fi
}

# emulate DEVICES BYTES: a machine in the folder.
emulate() {
        # shellcheck disable=SC2154
        export GPUMEM_CUDA_LIBRARY=$build/libcuda-emu.so
        [ -e "$GPUMEM_CUDA_LIBRARY" ] || GPUMEM_CUDA_LIBRARY=$build/driver/emulator/libcuda-emu.so
        export GPUMEM_EMULATOR="devices=${GPUMEM_TEST_DEVICES:-$1},bytes=$2,dir=$place/devices"
        unset CUDA_VISIBLE_DEVICES
}

# make_place DEVICES BYTES: a folder, gone when the script ends, and the environment that points
# everything at it. In it is empty.conf, which says nothing, in place of the machine's own file. The
# emulated machine has so many devices of so many bytes, or GPUMEM_TEST_DEVICES of them; of a real
# one that many are used, if there are.
make_place() {
        place=$(mktemp -d "$(roomy_folder)/gpumem-XXXXXXXX")
        trap clear_place EXIT
        trap 'exit 143' INT TERM
        forget_settings
        echo '{}' >"$place/empty.conf"
        export GPUMEM_SOCKET=$place/gpumemd.sock
        # A build folder's programs, or a bundle's.
        export PATH=$build/daemon:$build/ctl:$build/tests/demo:$build:$PATH
        ! is_emulated || emulate "$@"
        n_devices=$(gpumem-replay --list-devices | wc -l)
        [ "$n_devices" -le "$1" ] || n_devices=$1
}

# driver_folder: makes $place/lib, where programs that link the driver find the one that the client loads, by all of
# its names; and for linking them the folders of the client library, a build folder's or a bundle's.
driver_folder() {
        local driver=$GPUMEM_CUDA_LIBRARY name
        # The loader knows where a GPU's is.
        [[ $driver == */* ]] || driver=$(python3 -c '
import ctypes, sys
ctypes.CDLL(sys.argv[1])
print(next(line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line))' "$driver")
        mkdir "$place/lib"
        for name in libcuda.so libcuda.so.1 libcuda-emu.so; do
                ln -s "$driver" "$place/lib/$name"
        done
        link_client=("-L$build/client" "-L$build" -l:libgpumem-client.so.0)
        export LD_LIBRARY_PATH=$place/lib:$build/client:$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# wait_until SECONDS COMMAND...: until it succeeds.
wait_until() {
        local end=$((SECONDS + $1))
        shift
        until "$@" >/dev/null 2>&1; do
                [ "$SECONDS" -le "$end" ] || return 1
                sleep 0.02
        done
}

# wait_while_alive PID COMMAND...: until it succeeds, however slow the machine is; not if this
# script's process PID ends before.
wait_while_alive() {
        local pid=$1
        shift
        until "$@" >/dev/null 2>&1; do
                kill -0 "$pid" 2>/dev/null || { "$@"; return; }
                sleep 0.02
        done
}

# start_daemon OPTION...: returns when it serves. Where daemon_session is "setsid", it has a session of its own.
daemon_session=env
start_daemon() {
        "$daemon_session" gpumemd --config "$place/empty.conf" --log warning "$@" 2>"$place/gpumemd.log" &
        daemon=$!
        if ! wait_until 20 gpumemctl stats; then
                echo "gpumemd does not serve; it said:" >&2
                cat "$place/gpumemd.log" >&2
                return 1
        fi
}

# Some of everything, given back again: a driver opens files of its own at its first work.
do_first_work() {
        printf 'a %d 4096 0\n' {0..63} | gzip >"$place/first.trace.gz"
        gpumem-replay --name first --devices "$n_devices" --pinned-every 8 \
                "$place/first.trace.gz" >/dev/null
        wait_until 20 nothing_charged
        gpumemctl free-all >/dev/null
}

nothing_charged() {
        [ "$(figure charged_bytes)" -eq 0 ] && [ "$(figure lingering_bytes)" -eq 0 ]
}

# stop_daemon: in order; its exit status.
stop_daemon() {
        kill -TERM "$daemon"
        wait "$daemon"
}

# What it has complained of, but that NVML's end is not waited for: that is a busy machine's.
complaints() {
        grep -v "NVML does not answer; its thread is abandoned" "$place/gpumemd.log" || true
}

# The daemon's open fds.
count_fds() {
        find "/proc/$daemon/fd" -mindepth 1 -maxdepth 1 | wc -l
}

# Each thread of it waits for something: it is not only that it gets no processor.
daemon_sleeps() {
        [ -z "$(cat "/proc/$daemon"/task/*/stat 2>/dev/null | sed 's/^.*) //' | grep -v '^S')" ]
}

# The same, once the connections that ended are closed.
quiet_fds() {
        local before now
        now=$(count_fds)
        for _ in {1..100}; do
                before=$now
                sleep 0.1
                now=$(count_fds)
                if [ "$now" -eq "$before" ] && daemon_sleeps; then
                        break
                fi
        done
        echo "$now"
}

add_up() {
        awk '{ n += $1 } END { printf "%.0f\n", n }'
}

# figure NAME: a figure of gpumemctl stats --json, added up over the pools.
figure() {
        gpumemctl stats --json | sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" | add_up
}

# The bytes of each device that the driver counts as used, the asking process's context included.
driver_count() {
        gpumem-replay --driver-count --devices "$n_devices"
}

# How much more is the same, in MiB.
tolerance() {
        if is_emulated; then echo 0; else echo "$gpu_tolerance_mib"; fi
}

# driver_counts_no_more COUNT: than in that earlier answer.
driver_counts_no_more() {
        driver_count | paste <(echo "$1") - | awk -v mib="$(tolerance)" '
                NF != 2 || $2 - $1 > mib * 1048576 { print "used: " $2 " bytes, not " $1; bad = 1 }
                END { exit bad }'
}

# The same, after a while.
driver_comes_back() {
        wait_until 20 driver_counts_no_more "$1" || driver_counts_no_more "$1"
}

# Notes what must be the same in the end, for end_clean.
begin_clean() {
        do_first_work
        fds_before=$(quiet_fds)
        driver_before=$(driver_count)
}

same_fds() {
        equal "$(count_fds)" "$fds_before"
}

# end_clean FILTER: the last tests of a script: nothing stays behind, and the daemon ends in order. Its complaints
# go through the filter.
end_clean() {
        local status=0
        ok "no client is charged in the end" wait_until 20 nothing_charged
        ok "nothing is leased in the end" equal "$(figure leased_bytes)" 0
        gpumemctl free-all >/dev/null
        ok "nothing is reserved after free-all" equal "$(figure reserved_bytes)" 0
        ok "the driver has every byte back, to within $(tolerance) MiB" \
                driver_comes_back "$driver_before"
        ok "the daemon has as many files open as at the start" wait_until 20 same_fds
        stop_daemon || status=$?
        ok "the daemon ends in order" equal "$status" 0
        ok "the daemon complained of nothing" equal "$(complaints | "$1")" ""
        done_testing
}

# Ends what was started and removes the folder; for a trap.
clear_place() {
        local pids
        # timeout sends its signal twice; bash would take the second for impatience.
        trap '' INT TERM
        pids=$(jobs -p)
        # shellcheck disable=SC2086
        [ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
        wait 2>/dev/null || true
        # Processes of a script that was ended may still be making files for a moment.
        wait_until 20 rm -rf "$place" || rm -rf "$place"
}
