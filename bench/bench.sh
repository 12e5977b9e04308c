#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh BUILD [ARGUMENT...]: gpumem-bench with these arguments, against a gpumemd of its own on the
# emulated driver.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../tests/daemon.sh"
shift

# The device's file is sparse, so unused bytes cost nothing: many times the largest live set.
make_place 1 256GiB
# A driver's calls make no system call to look for faults.
! is_emulated || GPUMEM_EMULATOR=fault_file=0,$GPUMEM_EMULATOR
start_daemon --pinned-bytes 3GiB
status=0
"$build/bench/gpumem-bench" "$@" || status=$?
stop_daemon
exit "$status"
