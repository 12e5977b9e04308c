#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# top.sh BUILD: gpumemctl top on a terminal, which tmux is here: what it shows, and what keys do.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"
# shellcheck source=tests/holding.sh
. "$source_folder/tests/holding.sh"

make_place 2 1GiB

ok "no terminal" said 1 "needs a terminal as standard input and output; gpumemctl stats" gpumemctl top
ok "no key to sort by" said 2 'invalid --sort "x" (expected leased, idle, ' gpumemctl top --sort x
ok "no delay" said 2 'invalid --delay "0" (expected 1-3600 seconds)' gpumemctl top --delay 0
ok "no JSON" said 2 "top takes no --json" gpumemctl top --json
if ! command -v tmux >/dev/null; then
        skip "a screen" "no tmux"
        done_testing
        exit
fi

# Each has a server of its own: one that ends takes no new ones, and does not say so.
n_terminals=0
terminal() {
        env -u TMUX TMUX_TMPDIR="$place" LC_ALL=C tmux -f /dev/null -L "gpumem$n_terminals" "$@"
}
close_terminal() { terminal kill-server 2>/dev/null || true; }
trap 'close_terminal; clear_place' EXIT

# open_terminal COLUMNS ROWS COMMAND: its last line there is how it ended.
open_terminal() {
        n_terminals=$((n_terminals + 1))
        terminal new-session -d -x "$1" -y "$2" "$3; echo status \$?; exec sleep 1000"
}
# The leak checker stops its program with SIGSTOP, which the SIGCONT of a terminal that goes away takes back:
# then both wait for each other. What ends with its terminal does without; those that q ends are looked at.
left_alone="env LSAN_OPTIONS=detect_leaks=0 gpumemctl top"
screen() { terminal capture-pane -p -J; }
press() { terminal send-keys "$@"; }
resize() { terminal resize-window -x "$1" -y "$2"; }
has() { screen | grep -q -e "$1"; }
has_not() { ! has "$1"; }
# shows PATTERN, shows_not PATTERN: after a while, or else it says what is there.
shows() { wait_until 20 has "$1" || { screen; return 1; }; }
shows_not() { wait_until 20 has_not "$1" || { screen; return 1; }; }
# order_is PID...: the rows that are there, from the top.
order_is() {
        equal "$(screen | awk '$3 == "ready" && !/ gpumemctl/ { print $1 }' | paste -sd ' ')" "$*"
}

open_terminal 100 20 "gpumemctl top"
ok "no daemon" shows "no connection to gpumemd: .*is gpumemd running"
ok "no daemon: the status" shows "^status 3"
close_terminal

open_terminal 100 20 "TERM=unheard-of gpumemctl top --wait 20"
start_daemon --canary off
ok "a terminal that is not known" shows 'TERM is "unheard-of"'
ok "a terminal that is not known: the status" shows "^status 1"
close_terminal
open_terminal 100 20 "TERM=dumb gpumemctl top"
ok "a terminal without a cursor to move" shows 'cursor: TERM is "dumb"; gpumemctl stats and clients print the same'
ok "a terminal without a cursor to move: the status" shows "^status 1"
close_terminal

hold first device 64MiB
hold second device 4MiB
hold third pinned 2MiB
open_terminal 110 20 "gpumemctl top --pool 77"
ok "an unknown pool" shows "top: unknown pool 77 (valid: 0-$n_devices)"
ok "an unknown pool: the status" shows "^status 1"
close_terminal
open_terminal 110 20 "gpumemctl top"
ok "the head" shows "^gpumemd  [0-9:]*  pools $((n_devices + 1))  blocks 3  sort leased  pool all  h help"
if is_emulated; then
        ok "a device's bar" shows "^  0 Emulated GPU 0       \[|||| *\]   68.00 MiB of    1.00 GiB"
        ok "an unused device" shows "^  1 Emulated GPU 1       \[ *\]         0 B of    1.00 GiB"
else
        skip "a device's bar" "a GPU is used by others, too"
fi
ok "the bar of pinned memory" shows "^ *$n_devices pinned memory *\[| *\]    2.00 MiB of "
ok "a client" shows "^ *${holders[first]} *$(id -u) ready *64.00 MiB *0 B *0 B *1 *0 .* gpumem-share-demo"
ok "who leases most stands first" wait_until 20 order_is "${holders[first]}" "${holders[second]}" "${holders[third]}"
press r
ok "r reverses" shows "sort leased, reversed "
ok "r reverses the rows" wait_until 20 order_is "${holders[third]}" "${holders[second]}" "${holders[first]}"
press r s
ok "s sorts by the next column" shows "sort idle  "
press S S
ok "S by the one before" shows "sort program  "
press s
ok "and round it goes" shows "sort leased  "
press p
ok "p shows one pool" shows "  pool 0  "
ok "p shows who has blocks there" wait_until 20 order_is "${holders[first]}" "${holders[second]}"
press P P
ok "P shows the one before" shows "  pool $n_devices  "
ok "P shows the others" wait_until 20 order_is "${holders[third]}"
press p
ok "p goes round, too" shows "  pool all  "
press h
ok "h explains" shows "q  quit"
ok "h covers the rows" shows_not "gpumem-share-demo"
press h
ok "h again goes back" shows "gpumem-share-demo"
press Down
ok "rows are scrolled" wait_until 20 order_is "${holders[second]}" "${holders[third]}"
press Home
ok "and back" wait_until 20 order_is "${holders[first]}" "${holders[second]}" "${holders[third]}"

hold fourth device 8MiB
fourth=${holders[fourth]}
ok "what is new appears by itself" shows "^ *$fourth "
press Space
ok "space pauses" shows "PAUSED"
let_go fourth
ok "paused, what is gone is still there" has "^ *$fourth "
press Space
ok "space goes on" shows_not "PAUSED"
ok "what is gone disappears" shows_not "^ *$fourth "

resize 30 4
ok "a small terminal" shows "^gpumemd  [0-9:]*  pools 3  bl\|^gpumemd  [0-9:]*  pools 2  bl"
resize 1 1
resize 80 12
ok "80 columns have room for the program" shows " [0-9.]* [ms]*i*n*  gpumem-share-dem"
ok "and its figures" shows "^ *${holders[first]} *$(id -u) ready *64.0M *0 *0 *1 *0 "
resize 100 12
ok "from the smallest one back" shows " gpumem-s"

kill -STOP "$daemon"
ok "a daemon that says nothing" shows "has not answered for 2 s"
kill -CONT "$daemon"
ok "and does again" shows " gpumem-s"
stop_daemon
ok "a daemon that ends" shows "^gpumemd is away; it is asked again each second"
ok "why it is away" shows "is gpumemd running"
start_daemon --canary off
ok "the next one is found" shows "^gpumemd  [0-9:]*  pools "
gpumemctl limits --set pool/0:max_bytes=512MiB >/dev/null
ok "a pool's limit, as in stats" shows "^  0 .* of  512.00 MiB"
press q
ok "q ends it" shows "^status 0"
close_terminal

open_terminal 100 20 "gpumemctl top --sort PID --reverse --pool 0 --delay 100"
ok "options choose as keys do" shows "sort pid, reversed  pool 0  "
press C-c
ok "an interrupt ends it" shows "^status 0"
close_terminal

open_terminal 100 20 "$left_alone"
ok "a third one" shows "^gpumemd "
top=$(pgrep -P "$(terminal list-panes -F '#{pane_pid}')" -x gpumemctl)
# Who adopts it may be slow to reap it.
has_ended() { ! grep -q "^State:	[^ZX]" "/proc/$1/status"; }
close_terminal
ok "it ends with its terminal" wait_until 20 has_ended "$top"

let_go first second third
stop_daemon

echo '{"drain_seconds": 3600}' >"$place/drain.conf"
start_daemon --canary off --config "$place/drain.conf"
hold last device 4MiB
open_terminal 100 20 "$left_alone"
ok "a daemon that serves" shows "^gpumemd  [0-9:]*  pools "
kill -TERM "$daemon"
ok "a daemon that waits for its end" shows "^gpumemd is ENDING  [0-9:]*  pools "
close_terminal
let_go last
status=0
wait "$daemon" || status=$?
ok "and it ends" equal "$status" 0
done_testing
