#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# views.sh BUILD: what gpumemctl's commands show of held memory: tables, JSON, pictures.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"
# shellcheck source=tests/holding.sh
. "$source_folder/tests/holding.sh"

make_place 2 1GiB
mapfile -t devices < <(gpumem-replay --list-devices)

# What is refused before anybody is asked.
ok "blocks: no process" said 2 'invalid --pid "0" (expected 1-2147483647)' gpumemctl blocks --pid 0
ok "blocks: no user" said 2 'invalid --uid "no one" (expected a uid or a user name)' gpumemctl blocks --uid "no one"
ok "blocks: no state" said 2 'invalid --state "ready" (expected leased, idle, cached, lingering, others' \
        gpumemctl blocks --state ready
ok "clients: no state" said 2 'invalid --state "leased" (expected ready, left, orphaned, others' \
        gpumemctl clients --state leased
ok "blocks: no size" said 2 'invalid --min-size "big" (expected a size such as 64MiB)' gpumemctl blocks --min-size big
ok "blocks: no column" said 2 'invalid --sort "x" (expected block, pool, kind, state, ' gpumemctl blocks --sort x
ok "tenants: no column" said 2 'invalid --sort "pid" (expected uid, pool, ' gpumemctl tenants --sort pid
ok "tenants: no process" said 2 'tenants takes no --pid' gpumemctl tenants --pid 1
ok "blocks: no daemon" said 3 "is gpumemd running" gpumemctl blocks --sort size

for command in "map --svg" "snapshot --output" "metrics --output"; do
        # shellcheck disable=SC2086
        ok "$command: a name of a file that is none" said 2 "invalid --${command#*--} \"\" (expected the name of a file)" \
                gpumemctl $command ""
done
ok "snapshot: no daemon" said 3 "is gpumemd running" gpumemctl snapshot --output -
ok "map: no daemon" said 3 "is gpumemd running" gpumemctl map
ok "health: no daemon" said 3 "is gpumemd running" gpumemctl health
ok "health: no daemon: JSON" said 3 '"daemon": "away"' gpumemctl health --json
ok "health: no time" said 2 'invalid --lingering "x" (expected 0-1000000 seconds)' gpumemctl health --lingering x

start_daemon --canary off
me=$(id -u)
hold first device 64MiB
hold second device 4MiB
hold third pinned 2MiB

# Ages differ from one call to the next, and each call is work.
without_age() {
        sed -e 's/, started .* ago/, started/' -e 's/^Loop: .*/Loop/'
}
ok "status: which daemon answers" said 0 "gpumemd (process $daemon) at $GPUMEM_SOCKET answers." gpumemctl status
ok "status: its version" said 0 "Version $(gpumemctl version | cut -d ' ' -f 2), started " gpumemctl status
ok "status: how busy the loop is" grep -Eq \
        '^Loop: [0-9]+\.[0-9]{2} % busy, [0-9]+ of [1-9][0-9]* steps above 0\.10 ms, longest [0-9.]+ ms\.$' <(gpumemctl)
ok "status: how many clients" said 0 "Clients: 3" gpumemctl status
ok "status: a client" said 0 "  $(printf %-7s "${holders[first]}") gpumem-share-demo      64.00 MiB leased" gpumemctl status
ok "status: what to try next" said 0 "gpumemctl clients  what each process holds" gpumemctl status
ok "status fits a screen" fits_a_screen gpumemctl status
ok "gpumemctl alone is status" equal "$(gpumemctl | without_age)" "$(gpumemctl status | without_age)"
if is_emulated; then
        ok "status: a pool's bar" grep -Eq '^  0 Emulated GPU 0 +\[\|\|? +\] +(64|68).00 MiB of +1.00 GiB$' <(gpumemctl)
else
        skip "status: a pool's bar" "a GPU has a name and a size of its own"
fi

# column N COMMAND...: of the table.
column() {
        local n=$1
        shift
        gpumemctl "$@" | awk -v n="$n" 'NR > 1 { print $n }' | paste -sd ' '
}
# field NAME COMMAND...: of each row of the JSON.
field() {
        local name=$1
        shift
        gpumemctl "$@" --json |
                python3 -c 'import json, sys
for row in json.load(sys.stdin)[sys.argv[2]]: print(row[sys.argv[1]])' "$name" "$1" | paste -sd ' '
}
fits_80_columns() {
        gpumemctl "$1" | awk 'length > 80 { print; exit 1 }'
}
# What it can be sorted by, it says when it refuses another word.
has_all_columns() {
        local allowed
        allowed=$(gpumemctl "$1" --sort none-of-them 2>&1) || true
        equal "$(gpumemctl "$1" --wide | head -n 1 | tr '[:upper:]' '[:lower:]' | xargs -n 1 | sort)" \
                "$(printf '%s\n' "${allowed##*(expected }" | sed 's/)$//; s/, /\n/g' | sort)"
}
for command in clients blocks tenants; do
        ok "the table of $command fits 80 columns" fits_80_columns "$command"
        ok "--wide has all columns of $command" has_all_columns "$command"
done
ok "the table of stats fits 80 columns" fits_80_columns stats
ok "the table of devices fits 80 columns" fits_80_columns devices
ok "a narrow table has short sizes" equal "$(column 4 clients --sort dev-leased)" "64.0M 4.00M 0 0"
ok "a wide one has long ones" said 0 " 64.00 MiB " gpumemctl clients --wide
ok "a narrow table cuts long names" said 0 " gpumem-sha+ " gpumemctl clients
ok "a wide one does not" said 0 " gpumem-share-demo " gpumemctl clients --wide
# names_in LOCALE COMMAND...: what it says of a program whose name has characters of three scripts, ESC, CSI and an override.
named=$'M\xc3\xbcller \xe6\xbc\xa2 \033[1m\xc2\x9b\xe2\x80\xae.'
mkfifo "$place/named.in"
(exec -a "$named" "$(type -P gpumem-share-demo)" <"$place/named.in" >"$place/named.out") &
holders[named]=$!
exec {named_fd}>"$place/named.in"
echo "alloc pinned $((6 << 20))" >&"$named_fd"
wait_while_alive "${holders[named]}" grep -q "^ok" "$place/named.out"
names_in() { LC_ALL=$1 gpumemctl "${@:2}" | grep -F "ller "; }
for command in "clients --wide" "status" "map" "events --last 1 --pid ${holders[named]}" "free-all --tenant"; do
        # shellcheck disable=SC2086  # It is several words.
        ok "a name in UTF-8: $command" contains "$(names_in C.UTF-8 $command)" $'M\xc3\xbcller \xe6\xbc\xa2 ?[1m??.'
        # shellcheck disable=SC2086
        ok "a name in UTF-8, another locale: $command" contains "$(names_in C $command)" "M?ller ? ?[1m??."
done
ok "a name in UTF-8: JSON" equal "$(LC_ALL=C.UTF-8 field program clients --pid "${holders[named]}")" $'M\xc3\xbcller \xe6\xbc\xa2 ?[1m??.'
ok "a name in UTF-8 is cut by characters" equal "$(LC_ALL=C.UTF-8 gpumemctl clients --pid "${holders[named]}" | sed -n '2s/^.*\(M[^+]*\)+.*$/\1/p')" \
        $'M\xc3\xbcller \xe6\xbc\xa2 '
let_go named
ok "blocks of one process" equal "$(field bytes blocks --pid "${holders[first]}")" $((64 << 20))
ok "blocks of no process" equal "$(field bytes blocks --pid 2147483647)" ""
ok "blocks of a user" equal "$(field uid blocks --uid "$me")" "$me $me $me"
ok "blocks of another user" equal "$(field uid blocks --uid 4294967294)" ""
ok "blocks of a state" equal "$(field state blocks --state leased)" "leased leased leased"
ok "blocks of another state" equal "$(field state blocks --state lingering)" ""
ok "blocks of a size" equal "$(field bytes blocks --min-size 4MiB --sort size)" "$((64 << 20)) $((4 << 20))"
ok "blocks of a pool" equal "$(field kind blocks --pool "$n_devices")" "pinned"
ok "blocks by size" equal "$(field bytes blocks --sort size)" "$((64 << 20)) $((4 << 20)) $((2 << 20))"
ok "blocks by size, the smallest first" equal "$(column 1 blocks --reverse --sort SIZE)" "$(column 1 blocks --sort size | tr " " "\n" | tac | paste -sd " ")"
ok "one client" equal "$(field pid clients --pid "${holders[second]}")" "${holders[second]}"
ok "clients of a user" [ "$(field pid clients --uid "$me" | wc -w)" -eq 4 ]
ok "clients that left" equal "$(field pid clients --state left)" ""
ok "clients by what they hold" equal \
        "$(field device_leased_bytes clients --sort dev-leased)" "$((64 << 20)) $((4 << 20)) 0 0"
ok "clients by their names" equal "$(column 1 clients --sort program | wc -w)" 4
ok "tenants by what they have" equal "$(field reserved_bytes tenants --sort reserved --uid "$me" | cut -d ' ' -f 1,2)" \
        "$((68 << 20)) $((2 << 20))"
ok "a table without rows is its heading" equal "$(gpumemctl blocks --pid 2147483647 2>/dev/null | wc -l)" 1
ok "blocks that there are not" said 0 "gpumemctl: there are no blocks that these options choose" gpumemctl blocks --min-size 1TiB
ok "watch: nothing is split where whole blocks are in allocations" equal "$(gpumemctl watch --count 1 --pool 0 | awk 'NR == 2 { print $10 }')" "0"
ok "a pid that no client has" said 0 "gpumemctl: no clients have pid 2147483647" gpumemctl clients --pid 2147483647
ok "a pid that a client has, but in another state" said 0 "gpumemctl: there are no clients that these options choose" \
        gpumemctl clients --pid "${holders[first]}" --state left
ok "a user that no client has" said 0 "gpumemctl: there are no clients that these options choose" gpumemctl clients --uid 4294967294

cells_of() { gpumemctl map --pool "$1" | sed -n '2,/^  A /p' | sed '$d'; }
if is_emulated; then
        # 1 GiB in 384 cells.
        ok "map: the cells" equal "$(cells_of 0 | head -n 1)" "  $(printf 'A%.0s' {1..24})BB$(printf '.%.0s' {1..38})"
        ok "map: a pool is six lines" equal "$(cells_of 0 | tail -n +2 | sort -u)" "  $(printf '.%.0s' {1..64})"
else
        skip "map: the cells" "a GPU has more memory"
fi
ok "map: the owners" said 0 \
        "A   64.00 MiB  leased by process ${holders[first]} of uid $me (gpumem-share-demo)" gpumemctl map
ok "map: pinned memory" said 0 "A    2.00 MiB  leased by process ${holders[third]} " gpumemctl map --pool "$n_devices"
ok "map: one pool" equal "$(gpumemctl map --pool "$n_devices" | grep -c "^pool ")" 1
ok "map: JSON" equal "$(gpumemctl map --pool 0 --json | python3 -c 'import json, sys
pool = json.load(sys.stdin)["map"][0]
print(sum(s["bytes"] for s in pool["spans"]) + pool["free_bytes"] - pool["bytes"],
      [s["pid"] for s in pool["spans"]])')" "0 [${holders[first]}, ${holders[second]}]"
ok "map: an unknown pool" said 1 "unknown pool 77 (valid: 0-" gpumemctl map --pool 77
ok "map: no terminal, no colour" equal "$(gpumemctl map | grep -c $'\033')" 0
# in_terminal COMMAND...: what it prints into one.
in_terminal() {
        python3 -c 'import pty, sys
sys.exit(pty.spawn(sys.argv[1:]) >> 8)' "$@" </dev/null
}
ok "status: no room for bars: no legend" said 0 "Pools:                    " in_terminal sh -c "stty cols 61; gpumemctl"
ok "status: room for bars" said 0 "Pools: | in use" in_terminal sh -c "stty cols 62; gpumemctl"
ok "map: a terminal, and colours" said 0 $'\033[32mA' in_terminal env TERM=xterm gpumemctl map
# How wide the lines of cells of pool 0 are, in a terminal of that width.
cells_in() { in_terminal sh -c "stty cols $1; TERM=dumb gpumemctl map --pool 0" | tr -d '\r' | sed -n '2,/^  A /p' | sed '$d' | awk '{ print length }' | sort -un | paste -sd " "; }
ok "map: as wide as the terminal" equal "$(cells_in 100)" 100
ok "map: a narrow one" equal "$(cells_in 30)" 30
ok "map: a terminal without room" equal "$(cells_in 1)" 3
ok "map: one that is too wide" equal "$(cells_in 2000)" 514
ok "map: NO_COLOR" equal "$(in_terminal env TERM=xterm NO_COLOR=1 gpumemctl map | grep -c $'\033')" 0
ok "map: a terminal that has none" equal "$(in_terminal env TERM=dumb gpumemctl map | grep -c $'\033')" 0
is_picture() {
        python3 -c 'import sys, xml.etree.ElementTree as tree
svg = tree.parse(sys.argv[1]).getroot()
names = [e.text for e in svg.iter() if e.tag.endswith("title")]
bars = [e for e in svg.iter() if e.tag.endswith("rect") and e.get("height") == "44.00"]
assert svg.tag.endswith("svg") and any("process " + sys.argv[2] in n for n in names), names
assert len(bars) >= 5, bars' "$1" "${holders[first]}"
}
gpumemctl map --svg "$place/map.svg"
ok "map: SVG" is_picture "$place/map.svg"
gpumemctl map --svg - >"$place/map-too.svg"
ok "map: SVG on standard output" cmp "$place/map.svg" "$place/map-too.svg"
ok "map: SVG and JSON in one" said 2 "--svg - cannot be combined with --json: name a file" gpumemctl map --svg - --json
ok "map: SVG in a file, and JSON" equal "$(gpumemctl map --svg "$place/map-too.svg" --json)" "$(gpumemctl map --json)"
ok "map: SVG in a file, and JSON: the file" is_picture "$place/map-too.svg"
ok "map: SVG nowhere" said 1 "--svg: $place/none/map.svg: No such file" gpumemctl map --svg "$place/none/map.svg"
ok "map: SVG and no space" said 1 "--svg: /dev/full: No space left" gpumemctl map --svg /dev/full

# What readers of PyTorch's snapshots ask for: torch/cuda/_memory_viz.py and the page's script.
gpumemctl snapshot --output "$place/snapshot.json"
is_snapshot() {
        python3 -c 'import json, sys
snapshot = json.load(open(sys.argv[1]))
assert snapshot["device_traces"] == [[]] * (int(sys.argv[2]) + 1)
end = 0
for segment in snapshot["segments"]:
    assert segment["address"] >= end and segment["address"] < 2 ** 53
    end = segment["address"] + segment["total_size"]
    assert segment["device"] in range(int(sys.argv[2]) + 1) and segment["stream"] == 0
    assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]
    for block in segment["blocks"]:
        assert block["address"] == segment["address"] and block["state"] == "active_allocated"
        assert block["requested_size"] == block["size"]
        for frame in block["frames"]:
            assert frame["filename"] == "gpumemd" and frame["line"] in map(int, sys.argv[3:])
            assert "leased by process %d of uid" % frame["line"] in frame["name"], frame
sizes = sorted(s["total_size"] >> 20 for s in snapshot["segments"])
assert sizes == [2, 4, 64], sizes' "$@"
}
ok "snapshot: what readers of PyTorch's want" is_snapshot "$place/snapshot.json" "$n_devices" "${holders[@]}"
ok "snapshot: on standard output" sh -c "gpumemctl snapshot | cmp - '$place/snapshot.json'"
ok "snapshot: there, too" sh -c "gpumemctl snapshot --output - | cmp - '$place/snapshot.json'"
ok "snapshot: one pool" equal "$(gpumemctl snapshot --pool "$n_devices" | grep -c total_size)" 1
ok "snapshot: nowhere" said 1 "--output: $place/none/x: No such file" gpumemctl snapshot --output "$place/none/x"
ok "snapshot: no space" said 1 "--output: /dev/full: No space left" gpumemctl snapshot --output /dev/full

if is_emulated; then
        nvml_says() {
                echo "$1" >"$place/devices/nvml.new"
                mv "$place/devices/nvml.new" "$place/devices/nvml"
        }
        # NVML is asked once a second.
        ok "health: healthy" wait_until 20 said 0 "healthy: $((n_devices + 1)) pools" gpumemctl health --strict
        ok "health: JSON" equal "$(gpumemctl health --json | tr -d ' \n')" \
                '{"healthy":true,"daemon":"answers","findings":[]}'
        nvml_says "uncorrected=0:2"
        ok "health: a note" wait_until 20 said 0 "loaded: 2" gpumemctl health
        ok "health: a note is healthy" said 0 "healthy: " gpumemctl health
        ok "health: but not to the strict" said 1 "unhealthy: " gpumemctl health --strict
        nvml_says "recovery=0:1"
        ok "health: a device that needs a reset" wait_until 20 said 1 "NVML says: the device needs a reset" gpumemctl health
        ok "health: an unhealthy pool" said 1 "unhealthy: pool 0 (${devices[0]%, *}): " gpumemctl health
        ok "health: an unhealthy pool: of how many" said 1 "unhealthy: 1 of $((n_devices + 1)) pools" gpumemctl health
        ok "status: a warning" said 0 "unhealthy: pool 0 (${devices[0]%, *}): NVML says: the device needs a reset" gpumemctl
        ok "status: what to try then" said 0 "gpumemctl events   what happened lately" gpumemctl
        ok "health: a device that needs a reset: JSON" said 1 '"what": "device_needs_reset"' gpumemctl health --json
        nvml_says ""
        ok "health: healthy again" wait_until 20 gpumemctl health --strict
else
        skip "health: healthy" "a GPU is as it is"
fi
kill -STOP "$daemon"
ok "status: a daemon that does not answer" said 3 "has not answered for 1 s" gpumemctl --timeout 1
ok "status: a daemon that does not answer: what to do" said 3 "continue it (kill -CONT PID), or restart it" \
        gpumemctl --timeout 1
ok "status: a daemon that does not answer: what it costs is said once" equal \
        "$(gpumemctl --timeout 1 2>&1 | grep -ci "programs keep their memory")" 1
ok "status: a daemon that does not answer is not to be started" [ -z "$(gpumemctl --timeout 1 2>&1 | grep "systemctl start")" ]
ok "health: a daemon that says nothing" said 3 "has not answered for 1 s" gpumemctl health --timeout 1
kill -CONT "$daemon"

# A program keeps its memory while gpumemd restarts, and tells the next one of it when it asks for more.
stop_daemon
start_daemon --canary off
echo "alloc device $((2 << 20))" >&"$first_fd"
ok "after a restart: clients" wait_until 20 \
        said 0 " 64.00 MiB " gpumemctl clients --wide --sort dev-declared --pid "${holders[first]}"
ok "after a restart: status" said 0 ", 64.00 MiB declared" gpumemctl status
ok "after a restart: free-all" said 0 "(process ${holders[first]}, uid $me) holds 64.00 MiB of an earlier gpumemd" \
        gpumemctl free-all

let_go first second third
stop_daemon
if is_emulated; then
        before=$GPUMEM_EMULATOR
        export GPUMEM_EMULATOR="$before,dirty=1"
        start_daemon --canary on
        ok "health: memory that is not cleared" \
                said 1 "does not clear memory between owners: one tenant only is served" gpumemctl health
        stop_daemon
        export GPUMEM_EMULATOR=$before
else
        skip "health: memory that is not cleared" "a GPU's driver clears it"
fi
done_testing
