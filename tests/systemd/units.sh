#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# units.sh BUILD: what systemd's own tools think of the units, the daemon's and the exporter's.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# The units, with programs that are there.
for unit in gpumemd.service gpumemd-devices.service gpumemd.socket gpumemd-admin.socket; do
        sed "s|/[^ ]*/gpumemd$|$build/daemon/gpumemd|" "$build/systemd/$unit" >"$place/$unit"
done
exporter=gpumemd-exporter.service
sed "s|=/[^ ]*/gpumemd-exporter$|=$build/metrics/gpumemd-exporter|" "$build/systemd/$exporter" >"$place/$exporter"

# nvidia-modprobe may be missing here. A fake one notes how it is called.
devices=gpumemd-devices.service
mkdir "$place/gpus" "$place/gpus/0000:06:00.0" "$place/gpus/0000:0a:00.0"
printf '#!/bin/sh\necho "$@" >>%s\n' "$place/calls" >"$place/nvidia-modprobe"
chmod +x "$place/nvidia-modprobe"
sed -i "s|/usr/bin/nvidia-modprobe|$place/nvidia-modprobe|; s|/proc/driver/nvidia/gpus|$place/gpus|" "$place/$devices"

is_understood() {
        systemd-analyze verify --man=no --recursive-errors=no "$place/$1" >"$place/said" 2>&1 ||
                { cat "$place/said"; return 1; }
        [ ! -s "$place/said" ] || { cat "$place/said"; return 1; }
}

# The exposure is from 0 to 10, and is compared in tenths.
is_hardly_exposed() {
        systemd-analyze security --offline=true --threshold="$2" "$place/$1"
}

# makes_user NAME, in the group of those who may connect.
makes_user() {
        local root=$place/$1-root
        mkdir -p "$root/etc"
        systemd-sysusers --root="$root" "$source_folder/systemd/$1.sysusers"
        grep -q '^gpumem:' "$root/etc/group"
        [ "$(grep "^$1:" "$root/etc/passwd" | cut -d: -f4)" = "$(grep '^gpumem:' "$root/etc/group" | cut -d: -f3)" ]
}

# The names in the unit are those that sysusers makes.
names_its_user() {
        equal "$(sed -n 's/^User=//p' "$place/$exporter") $(sed -n 's/^Group=//p' "$place/$exporter")" \
                "gpumemd-exporter gpumem"
}

# The paths, and the modes that gpumemd gives its sockets where it makes them itself.
socket_is() {
        local unit=$place/$1 line
        shift
        for line; do
                grep -qx "$line" "$unit" || { echo "no $line"; return 1; }
        done
}

# runs_commands UNIT: as systemd would, whose quotes are the shell's here. A "-" before a command is systemd's own.
runs_commands() {
        rm -f "$place/calls"
        sed -n 's/^ExecStart=-//p' "$place/$1" >"$place/commands"
        sh "$place/commands"
}

makes_all_nodes() {
        printf 'Model: \t\t NVIDIA H200\nDevice Minor: \t 0\n' >"$place/gpus/0000:06:00.0/information"
        printf 'Model: \t\t NVIDIA H200\nDevice Minor: \t 11\n' >"$place/gpus/0000:0a:00.0/information"
        runs_commands "$devices"
        equal "$(cat "$place/calls")" $'-c 255\n-u -c 0\n-c 0 -c 11'
}

# The driver has GPUs, or it was not loaded.
makes_others() {
        rm -r "$place/gpus"
        runs_commands "$devices" 2>/dev/null
        equal "$(cat "$place/calls")" $'-c 255\n-u -c 0'
}

# Each of these settings has systemd filter devices, and then no node can be made.
may_make_nodes() {
        ! grep -E '^(Device(Policy|Allow)|PrivateDevices|ProtectClock|ProtectKernelModules)=' "$place/$devices"
}

# The names of its DeviceAllow are resolved at its start: modules are loaded before, at each start.
comes_after_devices() {
        socket_is gpumemd.service "Wants=$devices .*" "After=$devices .*" "DeviceAllow=char-nvidia-uvm rw" &&
                ! grep -E '^(ExecStartPre|RemainAfterExit)=' "$place/gpumemd.service" "$place/$devices"
}

makes_folder() {
        systemd-tmpfiles --root="$place/gpumemd-root" --create "$source_folder/systemd/gpumemd.tmpfiles"
        equal "$(stat -c '%a %u %g' "$place/gpumemd-root/run/gpumemd")" "755 0 0"
}

ok "systemd understands the unit" is_understood gpumemd.service
ok "systemd understands the unit of the device nodes" is_understood "$devices"
ok "systemd understands the clients' socket" is_understood gpumemd.socket
ok "systemd understands the admin socket" is_understood gpumemd-admin.socket
ok "the clients' socket is where programs look, and its group's" socket_is gpumemd.socket \
        ListenSequentialPacket=/run/gpumemd/gpumemd.sock SocketMode=0660 SocketGroup=gpumem
ok "the admin socket is beside it, and the daemon's user's" socket_is gpumemd-admin.socket \
        ListenSequentialPacket=/run/gpumemd/gpumemd.sock.admin SocketMode=0600 SocketUser=gpumemd
ok "its exposure is 1.0 or less" is_hardly_exposed gpumemd.service 10
ok "its user is of the group that may connect" makes_user gpumemd
ok "the nodes are made before it, at each start" comes_after_devices
ok "those of all GPUs, of nvidia-uvm, and nvidiactl" makes_all_nodes
ok "the last two where the driver tells of no GPU" makes_others
ok "the unit that makes them may" may_make_nodes
ok "and its exposure is 3.0 or less" is_hardly_exposed "$devices" 30
ok "systemd understands the exporter's unit" is_understood "$exporter"
ok "the exporter's exposure is 1.5 or less" is_hardly_exposed "$exporter" 15
ok "its user is of the group that may connect to gpumemd" makes_user gpumemd-exporter
ok "the unit names that user" names_its_user
if [ "$(id -u)" -eq 0 ]; then
        ok "the sockets' folder is root's" makes_folder
fi
done_testing
