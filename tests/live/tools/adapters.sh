#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# adapters.sh BUILD: what frameworks call, called by a C++ program as they call it.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"

make_place 1 256MiB
start_daemon
"$build/tests/live/test_adapters"
