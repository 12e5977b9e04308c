#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# watch.sh BUILD: gpumemctl watch: its lines for people and for programs, what happened between them, and the daemon's
# end.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"
# shellcheck source=tests/holding.sh
. "$source_folder/tests/holding.sh"

make_place 1 1GiB

# What is refused before anybody is asked.
for interval in 0 0.05 0.0999 3600.001 -1 1s 1. .5 1..5 0.1234 99999999999999999999 ""; do
        ok "watch: no interval: $interval" said 2 "invalid --interval \"$interval\" (expected 0.1-3600 seconds)" \
                gpumemctl watch --interval "$interval"
done
for count in 0 -1 1.5 2147483648 many; do
        ok "watch: no count: $count" said 2 "invalid --count \"$count\" (expected 1-2147483647)" gpumemctl watch --count $count
done
ok "watch: no pool" said 2 'invalid --pool "x" (expected a pool' gpumemctl watch --pool x
ok "watch: no daemon" said 3 "is gpumemd running" gpumemctl watch

start_daemon --canary off --device-bytes 1GiB
n_pools=$((n_devices + 1))
hold first device 768MiB
hold second pinned 4MiB

gpumemctl watch --interval 0.1 --count 3 >"$place/table"
ok "watch: a line for each pool and look" equal "$(wc -l <"$place/table")" $((1 + 3 * n_pools))
ok "watch: one heading in a file" equal "$(grep -n RESERVED "$place/table" | cut -d : -f 1)" 1
ok "watch: the figures" contains "$(sed -n 2p "$place/table")" "    0     768M   768M     0      0      0  768M"
ok "watch: lines fit 80 columns" equal "$(awk 'length > 80' "$place/table")" ""
starts_line_up() {
        awk 'NR == 1 { n = index($0, "EVENTS") } substr($0, n - 1, 1) != " " || substr($0, n, 1) == " " { exit 1 }' "$place/table"
}
ok "watch: they line up" starts_line_up
ok "watch: one pool" equal "$(gpumemctl watch --count 1 --pool "$n_devices" | awk 'NR > 1 { print $2, $3 }')" "$n_devices 4.00M"
ok "watch: an unknown pool" said 1 "watch: unknown pool 77 (valid: 0-$n_devices)" gpumemctl watch --pool 77

# Of a terminal that does not say how high it is.
on_terminal() { script --quiet --return --command "$1" /dev/null </dev/null; }
if command -v script >/dev/null; then
        on_terminal "stty rows 24 2>/dev/null; gpumemctl watch --pool 0 --interval 0.1 --count 25" >"$place/screens"
        ok "watch: a heading each screen" equal "$(grep -n RESERVED "$place/screens" | cut -d : -f 1 | paste -sd ' ')" "1 24"
else
        skip "watch: a heading each screen" "no script(1)"
fi

# of_each EXPRESSION FILE: of the object `o` of each whole line.
of_each() {
        python3 -c 'import json, sys
for line in open(sys.argv[2]):
    if line.endswith("\n"):
        o = json.loads(line)
        print(eval(sys.argv[1]))' "$@"
}
# interrupt PID: sets `status` to its exit status.
interrupt() {
        status=0
        kill -INT "$1"
        wait "$1" || status=$?
}
refuse() {
        printf 'alloc device %s\nquit\n' $((512 << 20)) | gpumem-share-demo >"$place/refused" 2>&1 || true
        grep -q "^error " "$place/refused"
}

gpumemctl watch --json --interval 0.1 --pool 0 >"$place/lines" 2>"$place/said.json" &
watcher=$!
gpumemctl watch --interval 0.1 --pool 0 >"$place/table" &
other=$!
ok "watch --json: lines come while it runs" wait_while_alive "$watcher" grep -q '"reserved_bytes":805306368,' "$place/lines"
ok "watch: so do they in the table" wait_while_alive "$other" grep -q " 768M .* -$" "$place/table"
refuse
tells_refusals() {
        local n
        n=$(of_each 'o["new_refusals_count"] or 0' "$place/lines" | add_up)
        [ "$n" -gt 0 ] && equal "$n" "$(of_each 'o["refusals_count"]' "$place/lines" | tail -n 1)"
}
ok "watch --json: refusals since the look before" wait_while_alive "$watcher" tells_refusals
ok "watch: refusals in the table" wait_while_alive "$other" grep -q " [1-9][0-9]* refused$" "$place/table"
interrupt "$other"
ok "watch: an interrupt ends it in order" equal "$status" 0
ok "watch --json: before the first look nothing is known" equal \
        "$(of_each '(o["new_refusals_count"], o["new_revocations_count"])' "$place/lines" | sed -n 1p)" "(None, None)"
ok "watch --json: all figures of stats" equal "$(of_each 'sorted(o)' "$place/lines" | sort -u)" \
        "$(gpumemctl stats --json | python3 -c 'import json, sys
print(sorted([*json.load(sys.stdin)["pools"][0], "time", "new_refusals_count", "new_revocations_count"]))')"
ok "watch --json: times go up" equal "$(of_each 'o["time"]' "$place/lines" | sort -c 2>&1)" ""
let_go first second

# The daemon's end.
gpumemctl watch --interval 0.1 --wait 1000 --json >"$place/again" 2>"$place/said.again" &
patient=$!
wait_while_alive "$patient" grep -q "reserved_bytes" "$place/again"
stop_daemon
status=0
wait "$watcher" || status=$?
ok "watch: the daemon's end ends it" equal "$status" 3
ok "watch: and is said" grep -q "^gpumemctl: watch: ." "$place/said.json"
start_daemon --canary off
ok "watch --wait: the next daemon is found" wait_while_alive "$patient" grep -q "^gpumemctl: watch: connected to gpumemd again" "$place/said.again"
ok "watch --wait: what ended is said before" [ "$(grep -c "^gpumemctl: watch: " "$place/said.again")" -ge 2 ]
begins_twice() { [ "$(grep -c '"new_refusals_count":null' "$place/again")" -eq $((2 * n_pools)) ]; }
ok "watch --wait: it goes on, and knows nothing of before" wait_while_alive "$patient" begins_twice
interrupt "$patient"
ok "watch --wait: an interrupt ends it in order" equal "$status" 0

rm "$place/table" "$place/said.again" # what an earlier one wrote there is not what is waited for
gpumemctl watch --wait 1000 >"$place/table" 2>"$place/said.again" &
patient=$!
wait_while_alive "$patient" grep -q " -$" "$place/table"
stop_daemon
wait_while_alive "$patient" grep -q "^gpumemctl: watch: ." "$place/said.again"
interrupt "$patient"
ok "watch --wait: so it is while it waits" equal "$status" 0

unwritable() {
        local status=0
        timeout 20 gpumemctl watch >/dev/full 2>"$place/unwritten" || status=$?
        equal "$status" 1 && contains "$(cat "$place/unwritten")" "could not be written"
}
start_daemon --canary off
ok "watch: a write error ends it" unwritable
stop_daemon
done_testing
