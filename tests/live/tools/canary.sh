#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# canary.sh BUILD: the try whether the driver clears memory between its owners, as gpumemd makes it when
# it starts, and what the log says of it.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"

# What a busy machine was late with: the try, or NVML at the end.
is_late() {
        grep -q -e "or no answer in" -e "NVML does not answer; its thread is abandoned" "$place/gpumemd.log"
}

# starts_and_says OPTIONS PATTERN: with these options of the emulator the daemon serves, and its log says
# so; an empty pattern: it says nothing at all. Options of gpumemd follow.
starts_and_says() {
        local before=${GPUMEM_EMULATOR-} pattern=$2 status=0
        [ -z "$1" ] || export GPUMEM_EMULATOR="$before,$1"
        shift 2
        for _ in {1..5}; do
                start_daemon "$@" || status=1
                stop_daemon || status=1
                if [ "$pattern" = "cannot check whether" ] || ! is_late; then
                        break
                fi
        done
        [ -z "$before" ] || export GPUMEM_EMULATOR=$before
        if [ -n "$pattern" ]; then
                grep -q "$pattern" "$place/gpumemd.log" || status=1
        elif [ -s "$place/gpumemd.log" ]; then
                status=1
        fi
        [ "$status" -eq 0 ] || cat "$place/gpumemd.log"
        return "$status"
}

# Other daemons of the machine have theirs: these are told by the folder in their environment.
nothing_goes_on() {
        local pid bad=0
        for pid in $(pgrep -f -- --canary-of); do
                if grep -q "$place" "/proc/$pid/environ" 2>/dev/null; then
                        echo "$pid goes on"
                        bad=1
                fi
        done
        return "$bad"
}

nvml_says() {
        echo "$1" >"$place/devices/nvml.new"
        mv "$place/devices/nvml.new" "$place/devices/nvml"
}

state_is() {
        gpumemctl devices | grep -q "$1"
}

# One of this daemon's is there.
pgrep_own() {
        ! nothing_goes_on >/dev/null
}

make_place 1 1GiB
used_before=$(driver_count)
ok "memory that is cleared is nothing to speak of" starts_and_says "" "" --canary on
ok "the try leaves no memory used" driver_comes_back "$used_before"
if is_emulated; then
        ok "a driver that clears nothing is found out" \
                starts_and_says dirty=1 "only one tenant is served there"
        ok "it is not tried where that is turned off" starts_and_says dirty=1 "" --canary off
        ok "no memory for it is a warning" \
                starts_and_says "fail=cuMemCreate:*:2" "cannot check whether"
        ok "no context for it is a warning" \
                starts_and_says "fail=cuDevicePrimaryCtxRetain:*:46" "cannot check whether"
        ok "one that hangs is ended" starts_and_says "hang=cuMemCreate:1" "cannot check whether"
        ok "nothing of it goes on" nothing_goes_on
        start_daemon --canary on
        nvml_says "recovery=0:1"
        ok "a device is in error" wait_until 20 state_is "needs a reset"
        echo "hang=cuMemCreate:*" >"$place/devices/faults"
        nvml_says ""
        ok "it is tried again when it has recovered" wait_until 20 pgrep_own
        ok "until that is over nothing is made there, and others are answered" state_is "needs a reset"
        rm "$place/devices/faults"
        ok "then it is well again" wait_until 20 state_is well
        stop_daemon
        ok "and nothing of it goes on" nothing_goes_on
fi
done_testing
