#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# flood.sh BUILD: gpumem-flood against a gpumemd of its own on the emulated driver. As root the crowds are
# another user's.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../daemon.sh"

make_place 1 1GiB
start_daemon
chmod 0711 "$place"
chmod 0666 "$GPUMEM_SOCKET"
do_first_work
status=0
"$build/tests/flood/gpumem-flood" "$daemon" || status=$?
stop_daemon
exit "$status"
