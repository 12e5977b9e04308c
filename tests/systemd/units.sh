#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# units.sh BUILD: what systemd's own tools think of the units.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# The units, with programs that are there.
for unit in gpumemd.service gpumemd.socket gpumemd-admin.socket; do
        sed "s|/[^ ]*/gpumemd$|$build/daemon/gpumemd|" "$build/systemd/$unit" >"$place/$unit"
done

is_understood() {
        systemd-analyze verify --man=no --recursive-errors=no "$place/$1" >"$place/said" 2>&1 ||
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

# The paths, and the modes that gpumemd gives its sockets where it makes them itself.
socket_is() {
        local unit=$place/$1 line
        shift
        for line; do
                grep -qx "$line" "$unit" || { echo "no $line"; return 1; }
        done
}

makes_folder() {
        systemd-tmpfiles --root="$place/root" --create "$source_folder/systemd/gpumemd.tmpfiles"
        equal "$(stat -c '%a %u %g' "$place/root/run/gpumemd")" "755 0 0"
}

ok "systemd understands the unit" is_understood gpumemd.service
ok "systemd understands the clients' socket" is_understood gpumemd.socket
ok "systemd understands the admin socket" is_understood gpumemd-admin.socket
ok "the clients' socket is where programs look, and its group's" socket_is gpumemd.socket \
        ListenSequentialPacket=/run/gpumemd/gpumemd.sock SocketMode=0660 SocketGroup=gpumem
ok "the admin socket is beside it, and the daemon's user's" socket_is gpumemd-admin.socket \
        ListenSequentialPacket=/run/gpumemd/gpumemd.sock.admin SocketMode=0600 SocketUser=gpumemd
ok "its exposure is 1.0 or less" is_hardly_exposed
ok "its user is of the group that may connect" makes_users
if [ "$(id -u)" -eq 0 ]; then
        ok "the sockets' folder is root's" makes_folder
fi
done_testing
