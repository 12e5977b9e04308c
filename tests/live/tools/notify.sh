#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# notify.sh BUILD: what gpumemd tells systemd, in systemd's place.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"

make_place 1 1GiB
# One that needs no library but glibc, as a bundle's, tells systemd nothing.
if ! grep -q sd_notify "$(command -v gpumemd)"; then
        echo "1..0 # SKIP this gpumemd was made without systemd"
        exit 0
fi
python3 "$source_folder/tests/live/tools/notified.py" "$place/notify" "$place/heard" &
wait_until 20 test -e "$place/heard"

heard() {
        grep -qx "$1" "$place/heard" || { cat "$place/heard"; return 1; }
}

n_alive() {
        grep -cx 'WATCHDOG=1' "$place/heard" || true
}

more_alive_than() {
        [ "$(n_alive)" -gt "$1" ]
}

goes_on_telling() {
        wait_until 20 more_alive_than $(($(n_alive) + 3))
}

served_at_once() {
        wait_until 20 heard 'READY=1; STATUS=.*' && gpumemctl stats >/dev/null
}

# all_heard WORD: what was told before is in the file: this was told after it.
all_heard() {
        python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(sys.argv[2].encode(), sys.argv[1])' "$place/notify" "TEST=$1"
        wait_until 20 heard "TEST=$1"
}

stands_still() {
        grep -q '^State:[[:space:]]*T' "/proc/$daemon/status"
}

somebody_waits() {
        gpumemctl clients --json | grep -q '"device_waiting_count": 1,'
}

export NOTIFY_SOCKET=$place/notify
WATCHDOG_USEC=100000 gpumemd --config "$place/empty.conf" --log warning 2>"$place/gpumemd.log" &
daemon=$!
ok "it is ready when it serves" served_at_once
ok "the watchdog hears that it is alive" goes_on_telling

kill -STOP "$daemon"
wait_until 20 stands_still
all_heard stopped
n_before=$(n_alive)
sleep 1
all_heard later
ok "it does not when the loop stands still" equal "$(n_alive)" "$n_before"
kill -CONT "$daemon"
ok "and does when it goes on" goes_on_telling

if is_emulated; then
        printf 'pid=%s\nhang=cuMemCreate:1\n' "$daemon" >"$place/devices/faults.new"
        mv "$place/devices/faults.new" "$place/devices/faults"
        gpumem-replay --name hung --devices 1 "$source_folder/bench/traces/diffusion.trace.gz" >/dev/null 2>&1 &
        hung=$!
        wait_until 20 somebody_waits
        ok "a driver that hangs is not the loop's end" goes_on_telling
        ok "gpumemctl alone warns of a request that waits" \
                contains "$(gpumemctl)" "waiting: pool 0 (Emulated GPU 0): 1 request waits for memory"
        kill -KILL "$hung"
        wait "$hung" 2>/dev/null || true
        rm "$place/devices/faults"
fi

status=0
stop_daemon || status=$?
ok "it ends in order" equal "$status" 0
ok "its end is told" wait_until 20 heard 'STOPPING=1; STATUS=.*'

# A program that holds memory until it may go on.
hold_memory() {
        gpumem-replay --name holder --meeting "$place/meeting" --devices 1 \
                "$source_folder/bench/traces/diffusion.trace.gz" >/dev/null 2>&1 &
        holder=$!
        wait_until 60 test -e "$place/meeting.holder"
}

echo '{"drain_seconds": 3600}' >"$place/drain.conf"
start_daemon --config "$place/drain.conf"
hold_memory
# No signal has told it to end.
stays() {
        ! gpumemctl stats | grep -q ending && gpumemctl stats --json | grep -q '"ending": false'
}
ok "stats: none that ends" stays
kill -TERM "$daemon"
ok "what an end waits for is told" wait_until 20 heard \
        'STATUS=draining: waiting up to [0-9]* s for .* held by clients: 1; EXTEND_TIMEOUT_USEC=15000000'
is_unhealthy_by() {
        local status=0 line=$1
        shift
        gpumemctl health "$@" >"$place/health" || status=$?
        equal "$status" 1 && grep -q -- "$line" "$place/health"
}
ok "meanwhile it is unhealthy" is_unhealthy_by "^unhealthy: gpumemd is ending and leases nothing more$"
ok "meanwhile stats says so" equal "$(gpumemctl stats | tail -n 1)" "gpumemd is ending and leases nothing more"
ok "meanwhile stats says so: JSON" grep -q '"ending": true' <(gpumemctl stats --json)
ok "meanwhile devices says so" equal "$(gpumemctl devices | tail -n 1)" "gpumemd is ending and leases nothing more"
ok "meanwhile nothing is had" equal "$(gpumemctl why-oom | tail -n 1)" "gpumemd is ending and leases nothing more"
ok "meanwhile it is unhealthy: JSON" is_unhealthy_by '"healthy": false' --json
kill -KILL "$holder"
wait "$holder" 2>/dev/null || true
status=0
wait "$daemon" || status=$?
ok "it ends when nothing is held any more" equal "$status" 0

# The folder's emulated devices take their time.
is_ready_again() {
        [ "$(grep -cx 'READY=1; STATUS=serving' "$place/heard")" -gt "$n_ready" ]
}

made_and_ready() {
        wait_until 60 is_ready_again
        equal "$(figure cached_bytes)" $((256 * 1024 * 1024))
}

n_ready=$(grep -cx 'READY=1; STATUS=serving' "$place/heard")
echo '{"pools": [{"device": 0, "warm_bytes": "256MiB"}]}' >"$place/warm.conf"
! is_emulated || export GPUMEM_EMULATOR=$GPUMEM_EMULATOR,delay=cuMemCreate:20000
start_daemon --config "$place/warm.conf"
ok "it is ready when all is made that is to be" made_and_ready
ok "until then it tells how far it is" grep -q \
        '^STATUS=prewarming: .* of 256.00 MiB; EXTEND_TIMEOUT_USEC=15000000$' "$place/heard"
stop_daemon

# The last word of it is that it ends, however much is left to make.
ends_unready() {
        local status=0
        start_daemon --config "$place/$1.conf" --log info
        wait_until 20 grep -q '): prewarming ' "$place/gpumemd.log"
        stop_daemon || status=$?
        all_heard "$1"
        equal "$status" 0 &&
                equal "$(grep -oE '^(READY|STOPPING)=' "$place/heard" | tail -n 1)" STOPPING= &&
                if is_emulated; then
                        grep -q 'prewarming stopped after .*: gpumemd is shutting down$' "$place/gpumemd.log"
                fi
}

echo '{"drain_seconds": 5, "pools": [{"device": 0, "warm_bytes": "256MiB"}]}' >"$place/both.conf"
! is_emulated || GPUMEM_EMULATOR=${GPUMEM_EMULATOR%,delay=*},delay=cuMemCreate:500000
ok "who ends while it makes memory is not ready after that" ends_unready warm
ok "nor is who drains" ends_unready both
! is_emulated || GPUMEM_EMULATOR=${GPUMEM_EMULATOR%,delay=*}

all_heard ended
WATCHDOG_USEC=100000 WATCHDOG_PID=1 start_daemon
n_before=$(n_alive)
sleep 1
all_heard "in the end"
ok "another process's watchdog is not its own" equal "$(n_alive)" "$n_before"
stop_daemon
done_testing
