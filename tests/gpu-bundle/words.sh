#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# words.sh: what gpu-bundle/run says, and how it exits, where it has nothing to run: in a bundle of stubs.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/bundle" "$place/bundle/bin" "$place/tools" "$place/servers"
cp "$source_folder/tests/gpu-bundle/run" "$place/bundle/"
echo none >"$place/bundle/commit"
export GPU_BUNDLE_OUT=$place/out
unset GPUMEM_CUDA_LIBRARY

# program PATH LINE...: a script.
program() {
        local path=$1
        shift
        printf '%s\n' '#!/bin/bash' "$@" >"$path"
        chmod +x "$path"
}

run=$place/bundle/run
ok "--help" said 0 "Usage: run SUITE" "$run" --help
ok "no suite" said 2 "run: which suite?" "$run"
ok "an option without a suite" said 2 "run: which suite?" "$run" --emulated
ok "an unknown word" said 2 'run: "dance" is neither' "$run" demo dance
ok "an unknown option" said 2 'run: "--dance" is neither' "$run" demo --dance

program "$place/bundle/bin/gpumem-replay" 'echo "no CUDA driver: none here"; exit 1'
ok "no driver" said 1 "No GPU can be used: no CUDA driver: none here" "$run" demo
ok "no driver: a failure" said 1 "0 passed, 1 failed" "$run" demo

# Tests have users of their own, who need the driver and its machine.
# shellcheck disable=SC2016  # It is the stub that knows.
program "$place/bundle/bin/gpumem-replay" 'cd "${GPUMEM_CUDA_LIBRARY%/*}"' 'stat -c %a . devices | xargs' 'exit 1'
: >"$place/bundle/bin/libcuda-emu.so"
ok "a driver that stands in is everybody's" said 1 "No GPU can be used: 755 777" "$run" demo --stand-in

program "$place/bundle/bin/gpumem-replay" 'echo "A GPU, 1.00 GiB"'
program "$place/servers/nvidia-cuda-mps-control" 'echo "no server today"; exit 1'
ok "nothing was checked" said 1 "0 passed, 0 failed" "$run" mps --emulated
ok "nothing was checked: why" said 1 "mps: the emulated driver has none" "$run" mps --emulated
ok "an MPS server that does not start" said 1 "the server does not start: no server today" \
        env PATH="$place/servers:$PATH" "$run" mps
ok "an MPS server that does not start: a failure" said 1 "0 passed, 1 failed" \
        env PATH="$place/servers:$PATH" "$run" mps

for tool in bash dirname find gzip mkdir paste sed tee timeout awk rm; do
        ln -s "$(command -v "$tool")" "$place/tools/$tool"
done
ok "no python3" said 1 "run: python3 is missing" env PATH="$place/tools" "$run" live
rm "$place/tools/paste"
ok "no paste" said 1 "run: paste is missing" env PATH="$place/tools" "$run" demo
done_testing
