#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# attack.sh BUILD [ATTACK]: each attack of gpumem-attack, or the one of that name, on a gpumemd of its own with the
# default configuration. Prints what was measured beside what is wanted, and "N held, N missed" in the end.
# attack.sh BUILD short: a short form of all, which judges what can be counted and no time; TAP.
set -eu -o pipefail

only=${2:-}
# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../daemon.sh"

export PATH=$build/tests/attack:$PATH
if [ "$(id -u)" -ne 0 ]; then
        echo "1..0 # SKIP needs root, for processes of other users"
        exit 0
fi
make_place 1 64GiB
chmod 0711 "$place"

# The kernel divides CPUs among sessions, and a service has its own.
daemon_session=setsid

start_victim() {
        start_daemon
        chmod 0666 "$GPUMEM_SOCKET"
        do_first_work
}

# Attackers left nothing, and the daemon lives.
has_all_back() {
        wait_until 30 nothing_charged || { echo "a client is charged still"; return 1; }
        kill -0 "$daemon" || { echo "the daemon has ended"; return 1; }
}

# Threads for users whose sockets take long (daemon/server/transport/lane.h), which stay.
count_lanes() {
        grep -lx gpumemd-lane "/proc/$daemon"/task/*/comm | wc -l || true
}

# short_case ATTACK: gpumem-attack exits with 77 where this machine cannot have the attackers.
short_case() {
        local what="$1: others are answered" output status=0
        output=$(gpumem-attack "$daemon" "$1" --short 2>&1) || status=$?
        if [ "$status" -eq 77 ]; then
                skip "$what" "needs root, and cgroups that may be written to"
        else
                ok "$what" said_and_ended "$output" "$status"
        fi
}

# What was said is shown by `ok` where the status is none of success.
said_and_ended() {
        printf '%s\n' "$1"
        return "$2"
}

# One daemon for all.
short_form() {
        local attack fds_before status=0
        start_victim
        fds_before=$(quiet_fds)
        for attack in $(gpumem-attack --list); do
                short_case "$attack"
                ok "$attack: nothing is left of it" has_all_back
        done
        gpumemctl free-all >/dev/null
        ok "the daemon has as many files open as at the start, and two for each lane" \
                equal "$(quiet_fds)" $((fds_before + 2 * $(count_lanes)))
        stop_daemon || status=$?
        ok "the daemon ends in order" equal "$status" 0
        done_testing
}

long_form() {
        local attack
        gpumem-attack --columns
        for attack in ${only:-$(gpumem-attack --list)}; do
                start_victim
                gpumem-attack "$daemon" "$attack" | tee -a "$place/table" || true
                has_all_back || echo "$attack: MISSED" >>"$place/table"
                stop_daemon || echo "$attack: MISSED" >>"$place/table"
        done
        echo "$(grep -c ' held *$' "$place/table" || true) held," \
                "$(grep -c 'MISSED *$' "$place/table" || true) missed"
        ! grep -q 'MISSED *$' "$place/table"
}

if [ "$only" = short ]; then short_form; else long_form; fi
