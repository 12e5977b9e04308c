#!/bin/bash
# A gpumemd of one's own, for scripts to source: on the emulated driver, in a folder of its own.
# The caller sets `build`; what is here sets `place` (the folder), `daemon` (the process).

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

# make_place DEVICES BYTES: a folder, and the environment that points everything at it.
make_place() {
        # shellcheck disable=SC2154
        local driver=$build/driver/emulator/libcuda-emu.so
        place=$(mktemp -d "$(roomy_folder)/gpumem-XXXXXXXX")
        export GPUMEM_SOCKET=$place/gpumemd.sock
        export GPUMEM_CUDA_LIBRARY=$driver
        export GPUMEM_EMULATOR="devices=$1,bytes=$2,dir=$place/devices"
        export PATH=$build/daemon:$build/ctl:$build/tests/demo:$PATH
        unset CUDA_VISIBLE_DEVICES
}

# wait_until SECONDS COMMAND...: until it succeeds.
wait_until() {
        local tries=$(($1 * 50))
        shift
        until "$@" >/dev/null 2>&1; do
                tries=$((tries - 1))
                [ "$tries" -gt 0 ] || return 1
                sleep 0.02
        done
}

# start_daemon OPTION...: returns when it serves.
start_daemon() {
        gpumemd --log warning "$@" 2>"$place/gpumemd.log" &
        daemon=$!
        if ! wait_until 20 gpumemctl stats; then
                echo "gpumemd does not serve; it said:" >&2
                cat "$place/gpumemd.log" >&2
                return 1
        fi
}

# stop_daemon: in order; its exit status.
stop_daemon() {
        kill -TERM "$daemon"
        wait "$daemon"
}

# The daemon's open fds.
count_fds() {
        find "/proc/$daemon/fd" -mindepth 1 -maxdepth 1 | wc -l
}

# figure NAME: a figure of gpumemctl stats --json, added up over the pools.
figure() {
        gpumemctl stats --json | sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" | awk '{ n += $1 } END { printf "%.0f\n", n }'
}

# Ends what was started and removes the folder; for a trap.
clear_place() {
        local pids
        pids=$(jobs -p)
        # shellcheck disable=SC2086
        [ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
        wait 2>/dev/null || true
        rm -rf "$place"
}
