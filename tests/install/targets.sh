#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# targets.sh BUILD: `make install` compiles what it installs, and no test.
set -eu -o pipefail

build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
# shellcheck source=tests/tap.sh
. tests/tap.sh

# What make would run.
recipe=$(make --no-print-directory -n install)
mapfile -t targets < <(.ci/installed "$build")

# Files that ninja makes and meson installs, each of which must be named.
is_whole() {
        local missing
        missing=$(comm -23 \
                <(comm -12 <(meson introspect "$build" --installed | python3 -c 'import json, os, sys
for path in json.load(sys.stdin): print(os.path.relpath(path, sys.argv[1]))' "$build" | sort) \
                        <(ninja -C "$build" -t targets all | sed 's/: .*//' | sort)) \
                <(printf '%s\n' "${targets[@]}" | sort))
        equal "$missing" ""
}

# Also of what is only on the way to a target.
needs_no_test() {
        local inputs
        inputs=$(ninja -C "$build" -t inputs "${targets[@]}")
        contains "$inputs" daemon/main.c && ! grep -E '(^|/)tests/' <<<"$inputs"
}

ok "there are programs to install" contains "${targets[*]}" daemon/gpumemd
ok "make install compiles these" contains "$recipe" '.ci/compile build $(.ci/installed build)'
ok "and nothing else" equal "$(grep -c '^\.ci/compile' <<<"$recipe")" 1
ok "all that is installed is compiled" is_whole
ok "no test is" needs_no_test
done_testing
