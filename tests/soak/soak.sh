#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# soak.sh BUILD SECONDS [faults]: one daemon and four processes that together want more memory than there is,
# for so long. Some are stopped and go on, some are killed, some end; others come in their places. No byte is
# wrong, files and memory of daemon and processes do not grow, and in the end nothing is charged. With faults
# the driver fails one call in a hundred, of the daemon's all and of the processes' those that only the
# library makes, until the processes are to end.
# GPUMEM_TEST_SEED sets what happens.
set -eu -o pipefail

seconds=$2
faults=${3:-}
# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../daemon.sh"

n_processes=4
seed=${GPUMEM_TEST_SEED:-20240229}
RANDOM=$seed
echo "# GPUMEM_TEST_SEED=$seed"

# What may be more than after the first minute: files for what is under way, and for the blocks that a
# process maps at the moment, of those that there can be; heaps that are laid out in another way. What
# leaks passes that by far. A shorter run has no first minute to speak of.
more_fds=16
more_mapped_fds=112
more_kib=4096
first_row=60

make_place 1 192MiB
export PATH=$build/tests/soak:$PATH
start_daemon --device-bytes 160MiB --pinned-bytes 64MiB --canary off
begin_clean

# Not those whose failure is a leak: what destroys an event, or a user object.
calls=(cuMemImportFromShareableHandle cuMemAddressReserve cuMemMap cuMemSetAccess cuMemUnmap cuMemRelease
        cuMemAddressFree cuMemHostRegister cuMemHostUnregister cuEventCreate cuEventRecord cuEventQuery
        cuStreamGetCtx cuStreamGetId cuStreamGetCaptureInfo cuStreamIsCapturing cuCtxGetCurrent cuCtxGetDevice
        cuUserObjectCreate cuGraphRetainUserObject)
begin_faults() {
        {
                printf 'seed=%d\npid=%d\nfail=*:1%%:999\nfail=cuMemCreate:1%%:2\npid=*\n' $((seed % 10000000)) "$daemon"
                printf 'fail=%s:1%%:999\n' "${calls[@]}"
        } >"$place/devices/faults.new"
        mv "$place/devices/faults.new" "$place/devices/faults"
}

# Of a driver that fails it may be said that it does.
unforeseen() {
        if [ "$faults" ]; then
                grep -v -e 'cu[A-Za-z]*: CUDA_ERROR_\(UNKNOWN\|OUT_OF_MEMORY\) (' \
                        -e '^cuMemHostUnregister: CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED ' || true
        else
                cat
        fi
}
if [ "$faults" ]; then
        export GPUMEM_SOAK_FAULTS=1
        begin_faults
fi

# By number of the process; `stopped` has the time at which it goes on, 0 for one that runs.
declare -a pids stopped
n_started=0 n_kills=0 n_stops=0 n_ends=0 n_bad=0
declare -a sums=(0 0 0 0 0 0 0 0 0 0)

# start NUMBER: the streams of some lag behind, so that what is free is still used by their work. Returns
# when it takes signals; before, SIGTERM would find a shell that has this script's traps.
lags_us=(0 100 1000 4000)
start() {
        n_started=$((n_started + 1))
        GPUMEM_EMULATOR=${GPUMEM_EMULATOR:-},copy_delay_us=${lags_us[$1]} gpumem-soak \
                "$n_started" "$seed" "$place/counts.$1" 2>>"$place/processes.log" &
        pids[$1]=$!
        stopped[$1]=0
        wait_while_alive "${pids[$1]}" test -e "$place/counts.$1"
}

# What a process that is gone has done is added to what others have.
keep_counts() {
        local -a counts=()
        local i
        [ ! -s "$place/counts.$1" ] || read -ra counts <"$place/counts.$1"
        rm -f "$place/counts.$1"
        for i in "${!counts[@]}"; do
                sums[i]=$((sums[i] + 10#${counts[i]}))
        done
}

now_ms() {
        date +%s%3N
}

go_on() {
        [ "${stopped[$1]}" -eq 0 ] || kill -CONT "${pids[$1]}" 2>/dev/null || true
        stopped[$1]=0
}

continue_those_due() {
        local i ms
        ms=$(now_ms)
        for i in "${!pids[@]}"; do
                [ "${stopped[$i]}" -eq 0 ] || [ "$ms" -lt "${stopped[$i]}" ] || go_on "$i"
        done
}

# finish NUMBER STATUS: waits for the end, which must be that one. One that is stopped may have what the
# others of an emulated machine wait for.
finish() {
        local status=0
        {
                while kill -0 "${pids[$1]}"; do
                        continue_those_due
                        sleep 0.02
                done
                wait "${pids[$1]}" || status=$?
        } 2>/dev/null
        keep_counts "$1"
        if [ "$status" -ne "$2" ]; then
                n_bad=$((n_bad + 1))
                echo "# process $1 ended with $status, not $2"
                sed 's/^/# /' "$place/processes.log"
        fi
}

stop() {
        [ "${stopped[$1]}" -eq 0 ] || return 0
        kill -STOP "${pids[$1]}" 2>/dev/null || return 0
        stopped[$1]=$(($(now_ms) + 50 + RANDOM % 1500))
        n_stops=$((n_stops + 1))
}

# Stopped ones are killed too.
kill_one() {
        n_kills=$((n_kills + 1))
        kill -KILL "${pids[$1]}" 2>/dev/null || true
        finish "$1" 137
        start "$1"
}

end_one() {
        n_ends=$((n_ends + 1))
        go_on "$1"
        kill -TERM "${pids[$1]}" 2>/dev/null || true
        finish "$1" 0
        start "$1"
}

look_for_those_gone() {
        local i
        for i in "${!pids[@]}"; do
                if ! kill -0 "${pids[$i]}" 2>/dev/null; then
                        echo "# process $i was not meant to end"
                        finish "$i" 0
                        n_bad=$((n_bad + 1))
                fi
        done
}

# The first process is never replaced: its files and memory are watched.
disturb() {
        local any=$((RANDOM % n_processes)) other=$((1 + RANDOM % (n_processes - 1)))
        case $((RANDOM % 16)) in
        0 | 1 | 2 | 3) stop "$any" ;;
        4) kill_one "$other" ;;
        5) end_one "$other" ;;
        esac
}

fds_of() {
        find "/proc/$1/fd" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l
}

# Of its memory what it does not map of files: that is the emulated device.
kib_of() {
        sed -n 's/^RssAnon:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$1/status" 2>/dev/null || echo 0
}

declare -a first=() last=()

print_row() {
        local -a total=("${sums[@]}") counts
        local i j
        for i in "${!pids[@]}"; do
                counts=()
                [ ! -s "$place/counts.$i" ] || read -ra counts <"$place/counts.$i"
                for j in "${!counts[@]}"; do
                        total[j]=$((total[j] + 10#${counts[j]}))
                done
        done
        last=($(($(fds_of "$daemon") - $(figure blocks_count))) "$(kib_of "$daemon")" "$(fds_of "${pids[0]}")"
                "$(kib_of "${pids[0]}")")
        [ "${#first[@]}" -ne 0 ] || first=("${last[@]}")
        printf '# %6d %10d %9d %8d %8d %7d %7d %7d %7d %7d %6d %6d %6d %8d %9d %5d %8d %5d %8d\n' "$SECONDS" \
                "${total[0]}" "${total[1]}" $((total[2] / 1048576)) "${total[3]}" "${total[4]}" \
                "${total[5]}" "${total[7]}" "${total[8]}" "${total[9]}" "$n_stops" "$n_kills" "$n_ends" "$(figure creates_count)" \
                "$(figure cache_grants_count)" "${last[@]}"
}

# The last four: the daemon's files, besides one a block, and memory; a process's.
print_head() {
        printf '# %6s %10s %9s %8s %8s %7s %7s %7s %7s %7s %6s %6s %6s %8s %9s %5s %8s %5s %8s\n' seconds \
                allocated checked MiB elsewh. refused flushes graphs replays faults stops kills ends made from-idle \
                fds KiB fds KiB
}

for ((i = 0; i < n_processes; i++)); do
        start "$i"
done
SECONDS=0
next_row=$((seconds < first_row * 2 ? seconds : first_row))
print_head
while [ "$SECONDS" -lt "$seconds" ] && [ "$n_bad" -eq 0 ]; do
        disturb
        continue_those_due
        look_for_those_gone
        sleep 0.1
        if [ "$SECONDS" -ge "$next_row" ]; then
                print_row
                next_row=$((next_row + first_row))
        fi
done

for i in "${!pids[@]}"; do
        go_on "$i"
done
print_row
for i in "${!pids[@]}"; do
        kill -TERM "${pids[$i]}" 2>/dev/null || true
        finish "$i" 0
done
rm -f "$place/devices/faults"

no_more() {
        [ "$2" -le $(($1 + $3)) ] || { echo "$2, and it was $1"; return 1; }
}

ok "every process ended as it should, without a wrong byte" equal "$n_bad" 0
ok "the processes complained of nothing" equal "$(unforeseen <"$place/processes.log")" ""
ok "all were at work" [ "${sums[0]}" -gt 100 ]
[ -z "$faults" ] || ok "the driver failed now and then" [ "${sums[9]}" -gt 0 ]
[ "$faults" ] || ok "graphs were captured and run again" [ $((sums[7] > 10 && sums[8] > 10)) -eq 1 ]
if [ "$seconds" -ge $((first_row * 2)) ]; then
        ok "the daemon's files are as many" no_more "${first[0]}" "${last[0]}" "$more_fds"
        ok "the daemon's memory is as much" no_more "${first[1]}" "${last[1]}" "$more_kib"
        ok "a process's files are as many" no_more "${first[2]}" "${last[2]}" \
                "$more_mapped_fds"
        ok "a process's memory is as much" no_more "${first[3]}" "${last[3]}" "$more_kib"
fi
end_clean unforeseen
