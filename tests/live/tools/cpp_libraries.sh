#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cpp_libraries.sh BUILD: the C++ headers with those of RMM, CUDA's C++ libraries and Thrust. They are in wheels of 10 MB,
# fetched once a build folder; without a package index this is left out.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"

make_place 1 256MiB
wheels="librmm-cu13==26.10.0 librmm-cu13==26.4.0 rapids-logger==0.3.0"
folder=$build/cpp-libraries
cuda_include=${CUDA_HOME:-/usr/local/cuda}/include

# fetch: a folder for each wheel. The stamp says of which they are.
fetch() {
        local wheel
        rm -rf "$folder"
        for wheel in $wheels; do
                python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --retries 1 \
                        --timeout 15 --dest "$folder/$wheel" "$wheel" &&
                        python3 -m zipfile -e "$folder/$wheel"/*.whl "$folder/$wheel" || return 1
        done
        echo "$wheels" >"$folder/stamp"
}

# compile RMM SOURCE OPTION...: with the headers of that RMM, and of the libraries in its wheel. Clang 14 cannot read them.
compile() {
        local include=$folder/librmm-cu13==$1/librmm/include
        g++ -std=c++20 -Wall -Wextra -Werror -DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP \
                -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE -I"$source_folder/include" -isystem "$include" \
                -isystem "$include/rapids" -isystem "$folder/rapids-logger==0.3.0/rapids_logger/include" \
                -isystem "$cuda_include" "$source_folder/tests/live/client/$2" "${@:3}"
}

link() {
        compile 26.10.0 test_cpp_libraries.cc -o "$place/program" -L"$folder/librmm-cu13==26.10.0/librmm/lib64" -lrmm \
                -L"$folder/rapids-logger==0.3.0/rapids_logger/lib64" -lrapids_logger "${link_client[@]}"
}

# holds: each of its cases.
holds() {
        "$place/program" >"$place/said" || { grep -v '^ok' "$place/said"; return 1; }
        grep -q '^1\.\.[1-9]' "$place/said"
}

missing=
if [ ! -e "$cuda_include/cuda_runtime_api.h" ]; then
        missing="$cuda_include has no cuda_runtime_api.h"
elif [ "$(cat "$folder/stamp" 2>/dev/null)" != "$wheels" ] && ! fetch >"$place/pip.log" 2>&1; then
        missing="no package index answers, so RMM's headers could not be fetched"
fi
if [ "$missing" ]; then
        skip "the C++ libraries take gpumem's resources" "$missing"
        done_testing
        exit
fi

driver_folder
for wheel in "$folder/librmm-cu13==26.10.0/librmm/lib64" "$folder/rapids-logger==0.3.0/rapids_logger/lib64"; do
        LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$wheel
done
start_daemon
ok "it compiles with RMM 26.04, which has a base class" compile 26.4.0 test_cpp_old_rmm.cc -fsyntax-only
ok "it compiles with RMM 26.10, and with its CUDA libraries and Thrust" link
ok "its program holds" holds
ok "nothing stays charged" wait_until 20 nothing_charged
done_testing
