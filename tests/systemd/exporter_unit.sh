#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# exporter_unit.sh BUILD: what systemd's own tools think of the exporter's unit.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

unit=gpumemd-exporter.service
# The unit, with programs that are there.
sed "s|=/[^ ]*/gpumemd-exporter$|=$build/metrics/gpumemd-exporter|" "$build/systemd/$unit" >"$place/$unit"

is_understood() {
        systemd-analyze verify --man=no --recursive-errors=no "$place/$unit" >"$place/said" 2>&1 ||
                { cat "$place/said"; return 1; }
        [ ! -s "$place/said" ] || { cat "$place/said"; return 1; }
}

# The exposure is from 0 to 10, and is compared in tenths.
is_hardly_exposed() {
        systemd-analyze security --offline=true --threshold=15 "$place/$unit"
}

makes_its_user() {
        mkdir -p "$place/root/etc"
        systemd-sysusers --root="$place/root" "$source_folder/systemd/gpumemd-exporter.sysusers"
        [ "$(grep '^gpumemd-exporter:' "$place/root/etc/passwd" | cut -d: -f4)" = \
                "$(grep '^gpumem:' "$place/root/etc/group" | cut -d: -f3)" ]
}

# The names in the unit are those that sysusers makes.
names_its_user() {
        equal "$(sed -n 's/^User=//p' "$place/$unit") $(sed -n 's/^Group=//p' "$place/$unit")" \
                "gpumemd-exporter gpumem"
}

ok "systemd understands the exporter's unit" is_understood
ok "the exporter's exposure is 1.5 or less" is_hardly_exposed
ok "its user is of the group that may connect to gpumemd" makes_its_user
ok "the unit names that user" names_its_user
done_testing
