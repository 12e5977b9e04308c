#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# play.sh BUILD: tests/demo/play.sh shows a daemon with clients, and leaves nothing behind.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=tests/daemon.sh
. "$source_folder/tests/daemon.sh"
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"

make_place 1 1GiB
shown=$place/shown
player=
trap '[ -z "$player" ] || kill -TERM "$player" 2>/dev/null || true; clear_place' EXIT

# Of the processes that are alive, those that play started: their session is its own.
processes() {
        { cat /proc/[0-9]*/stat 2>/dev/null || true; } | sed 's/^\([0-9]*\) .*) /\1 /' |
                awk -v session="$1" '$2 != "Z" && $5 == session { print $1 }'
}
variable() { sed -n "s/^ *export $1=//p" "$shown"; }
sees() { GPUMEM_SOCKET=$(variable GPUMEM_SOCKET) gpumemctl "$@"; }
# play: starts it in a session of its own, in which an interrupt is not ignored, as it is for what bash starts with "&".
play() {
        rm -f "$shown"
        python3 -c 'import os, signal, sys
os.setsid()
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$source_folder/tests/demo/play.sh" "$build" >"$shown" 2>&1 &
        player=$!
}
sees_memory() { sees status | grep -q "gpumem-share-demo *256.00 MiB leased"; }
has_clients() { [ "$(sees clients --json | grep '"program": ' | grep -cv gpumemctl)" -ge "$1" ]; }
is_over() { [ -z "$(processes "$player")" ]; }

for signal in INT TERM; do
        play
        ok "$signal: it begins" wait_while_alive "$player" grep -q "^Ctrl-C ends" "$shown"
        ok "$signal: gpumemctl finds its daemon" said 0 "at $(variable GPUMEM_SOCKET) answers." sees
        ok "$signal: a program holds memory" wait_until 60 sees_memory
        ok "$signal: several programs are at work" wait_until 60 has_clients 3
        ok "$signal: the driver that it names is there" [ -e "$(variable GPUMEM_CUDA_LIBRARY)" ]
        ok "$signal: the driver has the name that frameworks look for" \
                [ -e "$(variable LD_LIBRARY_PATH | sed 's/ .*//')/libcuda.so.1" ]
        folder=$(dirname "$(variable GPUMEM_SOCKET)")
        n=$(processes "$player" | wc -l)
        ok "$signal: its processes are counted" [ "$n" -ge 4 ]
        kill -"$signal" "$player"
        status=0
        wait "$player" || status=$?
        if [ "$signal" = INT ]; then
                ok "$signal: it ends in order" equal "$status" 0
        else
                ok "$signal: it says that it was ended" equal "$status" 143
        fi
        ok "$signal: no process is left" wait_until 20 is_over
        ok "$signal: no file is left" [ ! -e "$folder" ]
        ok "$signal: nothing was complained of" equal "$(sed '1,/^Ctrl-C ends/d' "$shown")" ""
done
done_testing
