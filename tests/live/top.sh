#!/bin/bash
# top.sh BUILD: gpumemctl top on a terminal, which tmux is here: what it shows, and what keys do.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=tests/daemon.sh
. "$source_folder/tests/daemon.sh"
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"
# shellcheck source=tests/holding.sh
. "$source_folder/tests/holding.sh"

make_place 2 1GiB

ok "no terminal" said 1 "standard input and output are no terminal; gpumemctl stats" gpumemctl top
ok "no key to sort by" said 2 '--sort: "x" is no key; allowed: leased, idle, ' gpumemctl top --sort x
ok "no delay" said 2 '--delay: "0" is no time; allowed: 1 to 3600' gpumemctl top --delay 0
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
screen() { terminal capture-pane -p -J; }
press() { terminal send-keys "$@"; }
resize() { terminal resize-window -x "$1" -y "$2"; }
has() { screen | grep -q -e "$1"; }
has_not() { ! has "$1"; }
# await_screen has|has_not PATTERN: says what is there if it does not come.
await_screen() {
        wait_until 20 "$@" || { screen; return 1; }
}
# shows NAME PATTERN: after a while.
shows() { ok "$1" await_screen has "$2"; }
shows_not() { ok "$1" await_screen has_not "$2"; }
# order_is PID...: the rows that are there, from the top.
order_is() {
        equal "$(screen | awk '$3 == "ready" && $NF != "gpumemctl" { print $1 }' | paste -sd ' ')" "$*"
}

open_terminal 100 20 "gpumemctl top"
shows "no daemon" "no connection to gpumemd: .*is gpumemd running"
shows "no daemon: the status" "^status 3"
close_terminal

open_terminal 100 20 "TERM=unheard-of gpumemctl top --wait 20"
start_daemon --canary off
shows "a terminal that is not known" 'TERM is "unheard-of"'
shows "a terminal that is not known: the status" "^status 1"
close_terminal

hold first device 64MiB
hold second device 4MiB
hold third pinned 2MiB
open_terminal 110 20 "gpumemctl top"
shows "the head" "^gpumemd  [0-9:]*  pools $((n_devices + 1))  blocks 3  sort leased  pool all  h help"
if is_emulated; then
        shows "a device's bar" "^  0 Emulated GPU 0       \[|||| *\]   68.00 MiB of    1.00 GiB"
        shows "a device that nobody uses" "^  1 Emulated GPU 1       \[ *\]         0 B of    1.00 GiB"
else
        skip "a device's bar" "a GPU is used by others, too"
fi
shows "the bar of pinned memory" "^ *$n_devices pinned memory *\[| *\]    2.00 MiB of "
shows "a client" "^ *${holders[first]} *$(id -u) ready *64.00 MiB *0 B *0 B *1 *0 .* gpumem-share-demo"
ok "who leases most stands first" wait_until 20 \
        order_is "${holders[first]}" "${holders[second]}" "${holders[third]}"
press r
shows "r reverses" "sort leased, reversed "
ok "r reverses the rows" wait_until 20 order_is "${holders[third]}" "${holders[second]}" "${holders[first]}"
press r s
shows "s sorts by the next column" "sort idle  "
press S S
shows "S by the one before" "sort program  "
press s
shows "and round it goes" "sort leased  "
press p
shows "p shows one pool" "  pool 0  "
ok "p shows who has blocks there" wait_until 20 order_is "${holders[first]}" "${holders[second]}"
press P P
shows "P shows the one before" "  pool $n_devices  "
ok "P shows the others" wait_until 20 order_is "${holders[third]}"
press p
shows "p goes round, too" "  pool all  "
press h
shows "h explains" "q  quit"
shows_not "h covers the rows" "gpumem-share-demo"
press h
shows "h again goes back" "gpumem-share-demo"
press Down
ok "rows are scrolled" wait_until 20 order_is "${holders[second]}" "${holders[third]}"
press Home
ok "and back" wait_until 20 order_is "${holders[first]}" "${holders[second]}" "${holders[third]}"

hold fourth device 8MiB
fourth=${holders[fourth]}
shows "what is new appears by itself" "^ *$fourth "
press Space
shows "space pauses" "PAUSED"
let_go fourth
ok "paused, what is gone is still there" has "^ *$fourth "
press Space
shows_not "space goes on" "PAUSED"
shows_not "what is gone disappears" "^ *$fourth "

resize 30 4
shows "a small terminal" "^gpumemd  [0-9:]*  pools 3  bl\|^gpumemd  [0-9:]*  pools 2  bl"
resize 1 1
resize 100 12
shows "from the smallest one back" " gpumem-s"

kill -STOP "$daemon"
shows "a daemon that says nothing" "has not answered for 2 s"
kill -CONT "$daemon"
shows "and does again" " gpumem-s"
stop_daemon
shows "a daemon that ends" "^gpumemd is away; it is asked again each second"
shows "why it is away" "is gpumemd running"
start_daemon --canary off
shows "the next one is found" "^gpumemd  [0-9:]*  pools "
press q
shows "q ends it" "^status 0"
close_terminal

open_terminal 100 20 "gpumemctl top --sort PID --reverse --pool 0 --delay 100"
shows "options choose as keys do" "sort pid, reversed  pool 0  "
press C-c
shows "an interrupt ends it" "^status 0"
close_terminal

open_terminal 100 20 "gpumemctl top"
shows "a third one" "^gpumemd "
top=$(pgrep -P "$(terminal list-panes -F '#{pane_pid}')" -x gpumemctl)
close_terminal
ok "it ends with its terminal" wait_until 20 sh -c "! kill -0 $top"

let_go first second third
stop_daemon
done_testing
