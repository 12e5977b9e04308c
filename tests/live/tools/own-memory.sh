#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# own-memory.sh BUILD: the GPU memory that gpumemd costs while it holds no blocks, as NVML counts it.
# On a GPU only.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"

# A build folder's programs, or a bundle's.
export PATH=$build/tests/live:$PATH

# Without a context of its own a process needs no more.
own_mib_max=4

# lowest COMMAND...: of each line's first number the lowest of several answers, as a process that
# ended a moment ago may be counted for a while.
lowest() {
        for _ in {1..5}; do
                sleep 0.3
                "$@" | awk '{ print NR, $1 }'
        done | awk '!($1 in low) || $2 < low[$1] { low[$1] = $2 }
                END { for (i = 1; i in low; i++) print low[i] }'
}

# A line a GPU: its bytes in use before gpumemd and with it, by NVML; how many processes NVML lists,
# and what it bills gpumemd, "-" where it lists no such process: in a container it may know other pids.
nvml_compare() {
        paste -d ' ' <(echo "$nvml_before") <(gpumem-nvml "$daemon")
}

costs_at_most() {
        nvml_compare | awk -v mib="$1" '
                NF != 4 || $2 - $1 > mib * 1048576 || ($4 != "-" && $4 > mib * 1048576) {
                        print "before, with, processes, own: " $0; bad = 1 }
                END { exit bad || !NR }'
}

# costs_little WHEN: what ended a moment ago is waited for.
costs_little() {
        local name="gpumemd costs a GPU at most $own_mib_max MiB $1, by NVML"
        if [ -n "$no_nvml" ]; then
                skip "$name" "$no_nvml"
                return
        fi
        wait_until 20 costs_at_most "$own_mib_max" || true
        nvml_compare | awk -v when="$1" '{
                printf "# figure: GPU %d, with gpumemd running %s: %.1f MiB, %.1f before: %+.1f MiB, by NVML; ",
                        NR - 1, when, $2 / 1048576, $1 / 1048576, ($2 - $1) / 1048576
                own = $4 == "-" ? "gpumemd not among them" : sprintf("gpumemd has %.1f MiB", $4 / 1048576)
                printf "it lists %d processes, %s\n", $3, own }'
        ok "$name" costs_at_most "$own_mib_max"
}

# Says by how much the driver's count grew; others' memory is in it too.
show_growth() {
        lowest driver_count | paste <(echo "$driver_before") - | awk -v when="$1" '{
                printf "# figure: GPU %d, with gpumemd running %s: %+.1f MiB, by the driver\n",
                        NR - 1, when, ($2 - $1) / 1048576 }'
}

make_place 2 1GiB
status=0
said=$(gpumem-nvml 2>&1) || status=$?
no_nvml=
if is_emulated; then
        no_nvml="the driver is emulated"
elif [ "$status" -eq 3 ]; then
        no_nvml=$said
fi
# The driver's count makes a context, and so goes first: the driver may keep something of the first.
driver_before=$(lowest driver_count)
[ -n "$no_nvml" ] || nvml_before=$(lowest gpumem-nvml)
start_daemon --device-bytes 512MiB --pinned-bytes 64MiB
costs_little "before its first block"
show_growth "before its first block"
do_first_work
costs_little "after its first blocks"
show_growth "after its first blocks"

status=0
stop_daemon || status=$?
ok "the daemon ends in order" equal "$status" 0
done_testing
