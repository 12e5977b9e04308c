#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# adapters.sh BUILD: what frameworks call, called by a C++ program as they call it.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=tests/daemon.sh
. "$source_folder/tests/daemon.sh"

make_place 1 256MiB
start_daemon
"$build/tests/live/test_adapters"
