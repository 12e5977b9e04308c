#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# play.sh BUILD: a gpumemd on two emulated GPUs with three programs at work, to be looked at from another terminal.
# It lives in a temporary folder. Ctrl-C ends the programs and the daemon, and removes the folder.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=tests/daemon.sh
. "$source_folder/tests/daemon.sh"

# It never takes a real GPU, whatever the environment names.
unset GPUMEM_CUDA_LIBRARY GPUMEM_NVML_LIBRARY GPUMEM_EMULATOR
workers=()

# Each worker is a process group of its own: the programs that it has started end with it.
# shellcheck disable=SC2317  # A trap calls it.
finish() {
        local worker
        trap '' INT TERM HUP
        for worker in "${workers[@]}"; do
                kill -KILL -- "-$worker" 2>/dev/null || true
        done
        [ -z "${daemon:-}" ] || stop_daemon 2>/dev/null || true
        clear_place 2>/dev/null
}

# replay TRACE: runs a recorded program again and again.
replay() {
        while :; do
                gpumem-replay --name "$1" --devices "$n_devices" --pinned-every 8 \
                        "$source_folder/bench/traces/$1.trace.gz" >/dev/null 2>&1 || true
                sleep 1
        done
}

make_place 2 8GiB
driver_folder
export GPUMEM_NVML_LIBRARY=${GPUMEM_CUDA_LIBRARY%/*}/libnvml-emu.so
trap finish EXIT
trap 'exit 0' INT
trap 'exit 143' TERM HUP
set -m
start_daemon --device-bytes 3GiB --pinned-bytes 1408MiB

for trace in diffusion kv_decode; do
        replay "$trace" &
        workers+=($!)
done
# A third one only holds memory; it ends when its orders do.
mkfifo "$place/orders"
gpumem-share-demo <"$place/orders" >/dev/null &
workers+=($!)
exec {orders}<>"$place/orders"
echo "alloc device $((256 * 1024 * 1024))" >&"$orders"

cat <<TEXT
gpumemd serves two emulated GPUs; three programs use them. In another terminal:

  export GPUMEM_SOCKET=$GPUMEM_SOCKET
  export GPUMEM_CUDA_LIBRARY=$GPUMEM_CUDA_LIBRARY
  export GPUMEM_EMULATOR=$GPUMEM_EMULATOR
  export PATH=$(dirname "$(type -P gpumemctl)"):$(dirname "$(type -P gpumemd)"):\$PATH
  export LD_LIBRARY_PATH=$place/lib    # where Numba and others find libcuda.so.1

  gpumemctl          one screen: pools, clients, warnings
  gpumemctl top      the same, live
  gpumemctl clients  what each program holds

Ctrl-C ends everything and removes ${place}.
TEXT

wait "$daemon" || true
echo "gpumemd has ended; its log:" >&2
cat "$place/gpumemd.log" >&2
exit 1
