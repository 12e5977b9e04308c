#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deaths.sh BUILD KILLS: so many clients are killed while at work, in a daemon whose memory they and one that
# lives all share. It reads no wrong byte, and in the end every byte is back and no client is charged.
# GPUMEM_TEST_SEED sets what happens.
set -eu -o pipefail

n_kills=$2
# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../daemon.sh"

seed=${GPUMEM_TEST_SEED:-20240229}
echo "# GPUMEM_TEST_SEED=$seed"

make_place 1 192MiB
export PATH=$build/tests/soak:$PATH
start_daemon --device-bytes 160MiB --pinned-bytes 64MiB --canary off
begin_clean

# Work is still to be done when its process is killed.
status=0
GPUMEM_EMULATOR=${GPUMEM_EMULATOR:-},copy_delay_us=1000 \
        setsid --wait gpumem-kills "$n_kills" "$seed" "$place" 2>"$place/processes.log" || status=$?

ok "of all only those killed did not end in order, without a wrong byte" equal "$status" 0
ok "the processes complained of nothing" equal "$(cat "$place/processes.log")" ""
end_clean cat
