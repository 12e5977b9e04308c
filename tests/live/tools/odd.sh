#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# odd.sh BUILD: gpumemctl and a daemon whose lists cannot be true: it shows something, and nothing that a
# terminal would carry out.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"

make_place 1 1GiB
export PYTHONDONTWRITEBYTECODE=1
if [ ! -d "$source_folder/proto" ]; then
        skip "lists of one byte" "only a source tree has the lists"
        done_testing
        exit
fi

commands=("status" "stats" "stats --json" "watch --count 1" "watch --count 1 --json" "devices" "devices --json" "clients --sort program" "clients --json"
        "blocks --sort size --min-size 1" "blocks --json" "tenants --sort container" "tenants --json"
        "map" "map --json" "map --svg -" "snapshot" "snapshot --output $place/snapshot"
        "health" "health --json" "events" "events --json" "limits" "limits --json")

# shows_something COMMAND...: 0 or 1, and printable.
shows_something() {
        local status=0
        # shellcheck disable=SC2086
        gpumemctl $1 --timeout 5 >"$place/said" 2>&1 || status=$?
        [ "$status" -le 1 ] || { echo "status $status"; cat "$place/said"; return 1; }
        ! LC_ALL=C grep -n -a '[^[:print:]]' "$place/said"
}

# A terminal of its own for each; it is closed by whatever ends the script.
terminal() { env -u TMUX TMUX_TMPDIR="$place" LC_ALL=C tmux -f /dev/null -L "odd$byte" "$@"; }
byte=none
trap 'terminal kill-server 2>/dev/null || true; clear_place' EXIT
has() { terminal capture-pane -p -J | grep -q -e "$1"; }
top_ends() {
        terminal new-session -d -x 100 -y 20 'gpumemctl top; echo status $?; exec sleep 1000'
        wait_until 20 has "^gpumemd  .* blocks 64 " || { terminal capture-pane -p; return 1; }
        terminal send-keys p s S P Down NPage h h q
        wait_until 20 has "^status 0" || { terminal capture-pane -p; return 1; }
}

# Rows of zeros only are none.
top_says_so() {
        command -v tmux >/dev/null || return 0
        terminal new-session -d -x 100 -y 20 'gpumemctl top; echo status $?; exec sleep 1000'
        wait_until 20 has "^No data available" || { terminal capture-pane -p; return 1; }
        terminal send-keys q
        wait_until 20 has "^status 0" || { terminal capture-pane -p; return 1; }
}

begin() {
        rm -f "$GPUMEM_SOCKET"
        python3 "$source_folder/tests/live/tools/odd_lists.py" "$source_folder" "$GPUMEM_SOCKET" "$1" &
        liar=$!
        wait_while_alive "$liar" grep -q "$GPUMEM_SOCKET" /proc/net/unix
}

end() {
        kill -KILL "$liar"
        wait "$liar" 2>/dev/null || true
}

# has_figure COMMAND FIGURE: among the numbers of its JSON, of which none is below zero.
has_figure() {
        local status=0
        local json=--json
        # This writes nothing else.
        [ "$1" != snapshot ] || json=''
        # shellcheck disable=SC2086
        gpumemctl "$1" $json --timeout 5 >"$place/said" || status=$?
        [ "$status" -le 1 ] && python3 -c 'import json, sys
numbers = []
def note(text):
    numbers.append(int(text))
json.load(open(sys.argv[1]), parse_int=note)
assert min(numbers) >= 0, min(numbers)
assert int(sys.argv[2]) in numbers, set(numbers)' "$place/said" "$2"
}

for byte in 0x00 0x01 0x1b 0xff; do
        begin "$byte"
        for command in "${commands[@]}"; do
                ok "lists of one byte: $byte, $command" shows_something "$command"
        done
        if [ "$byte" = 0x00 ]; then
                ok "lists that were taken back, top" top_says_so
                terminal kill-server 2>/dev/null || true
        elif command -v tmux >/dev/null; then
                ok "lists of one byte: $byte, top" top_ends
                terminal kill-server 2>/dev/null || true
        else
                skip "lists of one byte: $byte, top" "no tmux"
        fi
        end
done

# Each byte of a figure is this one.
with_figures=(stats devices clients blocks tenants events snapshot map leaks)
begin 0x20
for command in "${with_figures[@]}"; do
        ok "figures above 2^53 are whole in JSON: $command" has_figure "$command" 2314885530818453536
done
end
begin 0x81
for command in "${with_figures[@]}"; do
        ok "figures above 2^63 - 1 are that in JSON: $command" has_figure "$command" 9223372036854775807
done
end
done_testing
