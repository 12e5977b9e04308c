#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# crash.sh BUILD: a client is killed in the middle of its trace. The other one goes on without a
# wrong byte, the dead one's charge ends, and nothing stays behind.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"

make_place 2 8GiB
start_daemon --device-bytes 8GiB --pinned-bytes 1536MiB --canary off
begin_clean

start_replay() {
        gpumem-replay --name "$1" --devices "$n_devices" --pinned-every 8 --meeting "$place/meeting" \
                "$source_folder/bench/traces/$2.trace.gz" >"$place/$1.out" 2>&1 &
}

start_replay victim diffusion
victim=$!
start_replay survivor diffusion
survivor=$!
ok "the victim is half-way" wait_while_alive "$victim" [ -e "$place/meeting.victim" ]
ok "the survivor is half-way" wait_while_alive "$survivor" [ -e "$place/meeting.survivor" ]
charged_by_two=$(figure charged_bytes)

kill -KILL "$victim"
wait "$victim" 2>/dev/null || true
# of_clients FIGURE: the sum over those that are listed.
of_clients() {
        gpumemctl clients --json | sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" | add_up
}
# Registered memory that the dead one had of the survivor lingers there, or is kept in the cache: it is
# unregistered at the survivor's end only.
survivor_alone() {
        ! gpumemctl clients --json | grep -q "\"pid\": $victim,*$" &&
                [ "$(figure charged_bytes)" -lt "$charged_by_two" ] &&
                [ "$(figure lingering_bytes)" -eq "$(of_clients pinned_lingering_bytes)" ]
}
ok "the dead one's charge ends" wait_until 20 survivor_alone
# Each figure is of another moment: the survivor may be letting go of what the dead one had.
adds_up() {
        equal "$(figure charged_bytes)" \
                "$(($(figure leased_bytes) + $(of_clients pinned_lingering_bytes) + $(of_clients pinned_kept_bytes)))"
}
ok "what is charged is the survivor's leases" wait_until 20 adds_up

touch "$place/meeting.go"
status=0
wait "$survivor" || status=$?
ok "the survivor ends in order" equal "$status" 0
ok "the survivor read no wrong byte" grep -q ' 0 bytes wrong' "$place/survivor.out"

end_clean cat
