#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lies.sh BUILD: metrics of a daemon that lies: what cannot be is no figure, and a name stays in its label.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../daemon.sh"

make_place 1 1GiB
export PYTHONDONTWRITEBYTECODE=1
liar=

# lie LIE: a daemon that does, in the place of the last one.
lie() {
        if [ -n "$liar" ]; then
                kill -KILL "$liar"
                wait "$liar" 2>/dev/null || true
        fi
        rm -f "$GPUMEM_SOCKET"
        python3 "$source_folder/tests/metrics/odd_daemon.py" "$source_folder" "$GPUMEM_SOCKET" "$1" &
        liar=$!
        wait_while_alive "$liar" listens
}

listens() {
        grep -q "$GPUMEM_SOCKET" /proc/net/unix
}

is_told() {
        contains "$(gpumemctl metrics --timeout 1)" 'gpumemd_pool_reserved_bytes{pool="1",'
}

is_without_loop() {
        ! gpumemctl metrics --timeout 1 | grep gpumemd_loop
}

is_linted() {
        gpumemctl metrics --format text --timeout 1 >"$place/metrics"
        [ "$(grep -c '^gpumemd_pool_info{' "$place/metrics")" -eq 2 ]
        promtool check metrics <"$place/metrics"
}

is_no_figure() {
        local status=0 said
        said=$(gpumemctl metrics --timeout 1 2>"$place/why") || status=$?
        { [ "$status" -eq 1 ] || [ "$status" -eq 3 ]; } && grep -qx 'gpumemd_up 0' <<<"$said" &&
                ! grep '^gpumemd_pool' <<<"$said" && grep -q '^gpumemctl: ' "$place/why"
}

lie none
ok "a daemon that does not lie is told of" is_told
ok "and its loop" contains "$(gpumemctl metrics --timeout 1)" "gpumemd_loop_steps_total 5"
lie older
ok "an older daemon is told of" is_told
ok "without its loop" is_without_loop
lie names
ok "a name stays in its label" is_linted
for name in ids few no-pools many pipe short unsealed silent gone noise error; do
        lie "$name"
        ok "no figure: $name" is_no_figure
done
kill -KILL "$liar"
wait "$liar" 2>/dev/null || true
done_testing
