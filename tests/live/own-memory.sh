#!/bin/bash
# own-memory.sh BUILD: the GPU memory that gpumemd costs while it holds no blocks, as nvidia-smi has
# it from NVML. On a GPU only.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=tests/daemon.sh
. "$source_folder/tests/daemon.sh"
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"

# Without a context of its own a process needs no more.
own_mib_max=4

# The daemon's MiB on each GPU where nvidia-smi knows of it.
own_mib() {
        timeout 20 nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits |
                awk -F ', *' -v pid="$daemon" '$1 == pid && $2 ~ /^[0-9]+$/ { print $2 }'
}

at_most() {
        [ "$1" -le "$2" ] || { echo "$1 is more than $2"; return 1; }
}

# costs_little WHEN: in a container nvidia-smi may see other pids, or none.
costs_little() {
        local name="gpumemd costs a GPU at most $own_mib_max MiB $1" mib
        if is_emulated; then
                skip "$name" "the driver is emulated"
                return
        fi
        if ! mib=$(own_mib | sort -n | tail -n 1); then
                skip "$name" "nvidia-smi is missing or failed"
        elif [ -z "$mib" ]; then
                skip "$name" "nvidia-smi does not list process $daemon"
        else
                echo "# figure: gpumemd's own GPU memory $1: $mib MiB, by nvidia-smi"
                ok "$name" at_most "$mib" "$own_mib_max"
        fi
}

# Says by how much the driver's count grew, which needs no pid; others' memory is in it too.
show_growth() {
        driver_count | paste <(echo "$2") - | awk -v when="$1" '{
                printf "# figure: GPU %d, with gpumemd running %s: %+.1f MiB, by the driver\n",
                        NR - 1, when, ($2 - $1) / 1048576 }'
}

make_place 2 1GiB
driver_before=$(driver_count)
start_daemon --device-bytes 512MiB --pinned-bytes 64MiB
show_growth "before its first block" "$driver_before"
costs_little "before its first block"
do_first_work
show_growth "after its first blocks" "$driver_before"
costs_little "after its first blocks"

status=0
stop_daemon || status=$?
ok "the daemon ends in order" equal "$status" 0
done_testing
