#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pod.sh BUILD: gpumemd with what the pod of k8s/daemonset.yaml leaves it: namespaces of its own, no capability, a
# root that it cannot write to, one folder of the host. Programs outside are served.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../daemon.sh"

user=64044
names=("a pod's daemon serves" "it has no capability and no namespace of the host's"
        "it cannot write to its root" "its probes say that it is well" "programs outside are served"
        "each connection is a tenant" "its exporter tells of it" "it ends in order")

can_be_tried() {
        [ "$(id -u)" -eq 0 ] && unshare --mount --pid --fork --net --ipc true 2>/dev/null
}

if ! can_be_tried; then
        for name in "${names[@]}"; do
                skip "$name" "for root only, where namespaces can be made"
        done
        done_testing
        exit
fi

make_place 2 1GiB
export PATH=$build/metrics:$PATH
chmod 755 "$place"
# The emulated driver's files are whose makes them.
gpumem-replay --driver-count --devices 2 >/dev/null
chmod -R a+rwX "$place/devices"
mkdir "$place/run"
chown "$user:$user" "$place/run"
export GPUMEM_SOCKET=$place/run/gpumemd.sock

said_in_pods() {
        python3 "$source_folder/tests/scale/commands.py" "$source_folder" "$1" | sed "s|/run/gpumemd|$place/run|g"
}

said_in_pods config >"$place/gpumemd.conf"
IFS=$'\t' read -r -a daemon_command < <(said_in_pods gpumemd | sed "s|/etc/gpumemd|$place|")
IFS=$'\t' read -r -a exporter_command < <(said_in_pods exporter | sed 's|0.0.0.0:14900|127.0.0.1:0|')

# in_pod FILE COMMAND...: the file is to hold its pid, as it is outside.
in_pod() {
        local file=$1
        shift
        # shellcheck disable=SC2016
        unshare --mount --pid --fork --net --ipc --uts --kill-child --propagation private bash -c '
                set -eu
                place=$1 user=$2
                shift 2
                mount -t proc proc /proc
                mount --bind "$place" "$place"
                mount --bind "$place/run" "$place/run"
                mount --bind "$place/devices" "$place/devices"
                mount -o remount,bind,ro "$place"
                mount -o remount,bind,ro /
                exec setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all \
                        --bounding-set=-all --no-new-privs "$@"' pod "$place" "$user" "$@" &
        echo $! >"$file"
}

in_pod "$place/parent" "${daemon_command[@]}" --log info 2>"$place/gpumemd.log"
parent=$(cat "$place/parent")
ok "a pod's daemon serves" wait_while_alive "$parent" gpumemctl stats
daemon=$(pgrep -P "$parent")

has_nothing() {
        local line
        for line in CapPrm CapEff CapBnd CapAmb; do
                grep -q "^$line:[[:space:]]*0000000000000000$" "/proc/$daemon/status" || { echo "$line"; return 1; }
        done
        grep -q "^NoNewPrivs:[[:space:]]*1$" "/proc/$daemon/status"
        grep -q "^Uid:[[:space:]]*$user" "/proc/$daemon/status"
        for line in pid ipc net mnt uts; do
                [ "$(readlink "/proc/$daemon/ns/$line")" != "$(readlink "/proc/self/ns/$line")" ] ||
                        { echo "$line"; return 1; }
        done
}

cannot_write() {
        local path
        for path in "$place/file" /file /tmp/file; do
                ! nsenter --target "$daemon" --root --mount touch "$path" 2>/dev/null || { echo "$path"; return 1; }
        done
}

probes_are_well() {
        local probe n=0
        while IFS=$'\t' read -r -a probe; do
                nsenter --target "$daemon" --root --mount --pid --net --ipc setpriv --reuid "$user" --regid "$user" \
                        --clear-groups "${probe[@]}" || return 1
                n=$((n + 1))
        done < <(said_in_pods probes)
        equal "$n" 3
}

program_is_served() {
        printf 'a %d 4096 0\n' {0..63} | gzip >"$place/pod.trace.gz"
        contains "$(gpumem-replay --name pod --devices 2 --pinned-every 8 "$place/pod.trace.gz")" \
                "checked, 0 bytes wrong"
}

# As it is configured: no warning that it could not be seen where they run.
# A small machine has less memory than the manifest gives gpumemd.
warns_of_nothing_else() {
        ! grep warning "$place/gpumemd.log" | grep -v 'exceeds the memory that exists'
}
connections_are_tenants() {
        contains "$(gpumemctl tenants)" "client" && warns_of_nothing_else
}

exporter_tells() {
        "${exporter_command[@]}" 2>"$place/exporter.log" &
        local exporter=$! port
        wait_while_alive "$exporter" grep -q 'metrics are at' "$place/exporter.log"
        port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics$|\1|p' "$place/exporter.log")
        contains "$(python3 "$source_folder/tests/metrics/scrape.py" get "$port")" "gpumemd_up 1"
        kill -TERM "$exporter"
        wait "$exporter"
}

ok "it has no capability and no namespace of the host's" has_nothing
ok "it cannot write to its root" cannot_write
ok "its probes say that it is well" probes_are_well
ok "programs outside are served" program_is_served
ok "each connection is a tenant" connections_are_tenants
ok "its exporter tells of it" exporter_tells
kill -TERM "$daemon"
status=0
wait "$parent" || status=$?
ok "it ends in order" equal "$status" 0
done_testing
