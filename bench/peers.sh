#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# peers.sh BUILD FOLDER [NAME SECONDS]: gpumem-bench peers against a gpumemd of its own, on the driver that
# GPUMEM_CUDA_LIBRARY names, or the GPU's where there is one, or the emulated one; the comparison NAME alone, for
# so long at most. The rows go to FOLDER/peers.json too, or to FOLDER/peers-NAME.json.
set -eu -o pipefail

output=$(cd "$2" && pwd)
# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../tests/daemon.sh"

# The other allocators find a GPU by themselves: their numbers must not be compared with the emulated driver's.
[ ! -e /dev/nvidiactl ] || export GPUMEM_CUDA_LIBRARY=${GPUMEM_CUDA_LIBRARY:-libcuda.so.1}

# The file of an emulated device is sparse: unused bytes cost nothing.
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
