#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# For scripts to source, after tests/daemon.sh: processes that hold memory until they are told to let go
# of it; and what commands say.

declare -A holders

# hold NAME device|pinned BYTES [OPTION]...: a process that has a block of so many bytes, with these options of
# gpumem-share-demo. Sets holders[NAME] to it.
hold() {
        local name=$1 fd
        mkfifo "$place/$name.in"
        gpumem-share-demo "${@:4}" <"$place/$name.in" >"$place/$name.out" 2>&1 &
        holders[$name]=$!
        exec {fd}>"$place/$name.in"
        eval "${name}_fd=$fd"
        echo "alloc $2 $(numfmt --from=auto "${3%B}")" >&"$fd"
        wait_while_alive "${holders[$name]}" grep -q "^ok" "$place/$name.out"
}

# let_go NAME...: each ends.
let_go() {
        local name fd
        for name; do
                fd=${name}_fd
                fd=${!fd}
                # Those that came later have it open, too.
                echo quit >&"$fd"
                exec {fd}>&-
                wait "${holders[$name]}" || true
                unset "holders[$name]"
                rm "$place/$name.in"
        done
}
