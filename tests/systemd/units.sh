#!/bin/bash
# units.sh BUILD: what systemd's own tools think of the unit.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# The unit, with programs that are there.
sed "s|/[^ ]*/gpumemd$|$build/daemon/gpumemd|" "$build/systemd/gpumemd.service" >"$place/gpumemd.service"

is_understood() {
        systemd-analyze verify --man=no --recursive-errors=no "$place/gpumemd.service" >"$place/said" 2>&1 ||
                { cat "$place/said"; return 1; }
        [ ! -s "$place/said" ] || { cat "$place/said"; return 1; }
}

# The exposure is from 0 to 10, and is compared in tenths.
is_hardly_exposed() {
        systemd-analyze security --offline=true --threshold=10 "$place/gpumemd.service"
}

makes_users() {
        mkdir -p "$place/root/etc"
        systemd-sysusers --root="$place/root" "$source_folder/systemd/gpumemd.sysusers"
        grep -q '^gpumem:' "$place/root/etc/group"
        [ "$(grep '^gpumemd:' "$place/root/etc/passwd" | cut -d: -f4)" = \
                "$(grep '^gpumem:' "$place/root/etc/group" | cut -d: -f3)" ]
}

ok "systemd understands the unit" is_understood
ok "its exposure is 1.0 or less" is_hardly_exposed
ok "its user is of the group that may connect" makes_users
done_testing
