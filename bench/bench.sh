#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh BUILD [ARGUMENT...]: gpumem-bench with these arguments, against a gpumemd of its own on the
# emulated driver.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../tests/daemon.sh"
shift

# Sparse: what nobody writes to costs nothing. Room for the largest live set, many times over.
make_place 1 256GiB
# What is measured is how fast it can be.
echo '{"each_user": {"requests_per_second": 1000000}}' >"$place/bench.conf"
start_daemon --config "$place/bench.conf" --pinned-bytes 3GiB
status=0
"$build/bench/gpumem-bench" "$@" || status=$?
stop_daemon
exit "$status"
