#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sweep.sh BUILD: every call fails in its turn, in every scenario; and a driver's call that hangs for a
# minute. Ends with how many faults there were.
set -eu -o pipefail

build=$(cd "$1" && pwd)
export GPUMEM_TEST_DAEMON=$build/daemon/gpumemd
export GPUMEM_CUDA_LIBRARY=$build/driver/emulator/libcuda-emu.so
export GPUMEM_TEST_FAULT_LIBRARY=$build/tests/fault/libfault.so
export GPUMEM_TEST_FAULTS=all
log=$build/faults.log
: >"$log"

status=0
GPUMEM_TEST_HANG_S=60 CK_RUN_CASE=outage "$build/tests/live/test_outage" </dev/null 2>/dev/null |
        grep 'while_a_call_hangs\|p99' || status=1
for program in test_faults test_start_faults test_answer_faults test_nvml_faults; do
        "$build/tests/fault/$program" </dev/null 2>>"$log"
done | tee "$build/faults.tap" | grep --line-buffered -v '^ok' || status=1
grep -q '^not ok' "$build/faults.tap" && status=1
awk '/ faults$/ { n += $4 } END { printf "%d faults, ", n }' "$build/faults.tap"
echo "$(grep -c '^not ok' "$build/faults.tap" || true) of $(grep -Ec '^(not )?ok' "$build/faults.tap") sweeps failed"
exit "$status"
