#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# peers.sh BUILD FOLDER [NAME SECONDS]: gpumem-bench peers against a gpumemd of its own, on the driver that
# GPUMEM_CUDA_LIBRARY names, or the GPU's where there is one, or the emulated one; the comparison NAME alone, for
# so long at most. The rows go to FOLDER/peers.json too, or to FOLDER/peers-NAME.json.
set -eu -o pipefail

output=$(cd "$2" && pwd)
# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../tests/daemon.sh"

# The others find a GPU by themselves: no figure of the emulated driver is to stand beside theirs.
[ ! -e /dev/nvidiactl ] || export GPUMEM_CUDA_LIBRARY=${GPUMEM_CUDA_LIBRARY:-libcuda.so.1}

# Sparse where it is emulated: what nobody writes to costs nothing.
make_place 1 256GiB
PATH=$build/bench:$PATH
file=$output/peers.json
only=()
if [ $# -gt 2 ]; then
        file=$output/peers-$3.json
        only=(--only "$3" --seconds "$4")
fi
status=0
start_daemon
gpumem-bench peers --peers "$source_folder/bench/peers" --output "$file" "${only[@]}" \
        "$source_folder"/bench/traces/*.trace.gz || status=$?
stop_daemon
exit "$status"
