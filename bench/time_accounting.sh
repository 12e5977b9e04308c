#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# time_accounting.sh BUILD: what it costs that gpumemd measures whose work takes how long. Leases of a gpumemd, by turns with those
# of one that measures no time, both on the emulated driver.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../tests/daemon.sh"

make_place 1 1GiB
start_daemon
timed=$GPUMEM_SOCKET
export GPUMEM_SOCKET=$place/untimed.sock
"$build/bench/gpumemd-untimed" --config "$place/empty.conf" --log warning &
untimed=$!
wait_until 20 gpumemctl stats
status=0
"$build/bench/time_accounting" "$timed" "$GPUMEM_SOCKET" || status=$?
kill -TERM "$untimed"
wait "$untimed" || true
stop_daemon || true
exit "$status"
