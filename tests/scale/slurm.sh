#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slurm.sh BUILD: Slurm's prolog and epilog on a node with gpumemd, as slurmd runs them.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../daemon.sh"
# shellcheck source=tests/holding.sh
. "$source_folder/tests/holding.sh"

make_place 1 1GiB

# The scripts, with programs and settings that are there.
for name in prolog epilog; do
        sed "s|^gpumemctl=.*|gpumemctl=$build/ctl/gpumemctl|; s|/etc/gpumemd/slurm.conf$|$place/slurm.conf|" \
                "$build/slurm/$name.sh" >"$place/$name"
        chmod +x "$place/$name"
done
printf 'GPUMEMD_WAIT=0\nGPUMEMD_RECLAIM_WAIT=0\n' >"$place/slurm.conf"

# slurmd VARIABLE=VALUE... SCRIPT: with nothing else in the environment but where the daemon is.
slurmd() {
        env -i "GPUMEM_SOCKET=$GPUMEM_SOCKET" "${@:1:$#-1}" "$place/${!#}"
}

ok "shellcheck finds nothing" shellcheck "$build/slurm/prolog.sh" "$build/slurm/epilog.sh"
ok "prolog: no user" said 1 'invalid SLURM_JOB_UID "" (expected a uid' slurmd prolog
ok "prolog: a user that is none" said 1 'invalid SLURM_JOB_UID "root" (expected a uid' slurmd SLURM_JOB_UID=root prolog
ok "epilog: no job" said 1 "invalid SLURM_JOB_ID" slurmd SLURM_JOB_UID=1 epilog
ok "prolog: no daemon" said 3 "is gpumemd running" slurmd SLURM_JOB_UID=1000 prolog
ok "epilog: no daemon" said 3 "is gpumemd running" slurmd SLURM_JOB_ID=7 epilog

start_daemon --canary off
ok "prolog: all is well" slurmd SLURM_JOB_UID=1000 prolog
no_limit_is_set() {
        ! gpumemctl limits | grep device_bytes
}
ok "prolog: it sets no limit by itself" no_limit_is_set

limit_is_set() {
        gpumemctl limits --json | tr -d ' \n' | grep -o '{[^{}]*}' | grep '"holder":1000,' |
                grep '"limit":"device_bytes"' | grep "\"max\":$((256 << 20)),"
}
echo GPUMEMD_TENANT_BYTES=256MiB >>"$place/slurm.conf"
slurmd SLURM_JOB_UID=1000 prolog 2>/dev/null
ok "prolog: it sets the limit that it is told to" limit_is_set
echo GPUMEMD_TENANT_BYTES=much >>"$place/slurm.conf"
ok "prolog: a limit that is none" said 2 "much" slurmd SLURM_JOB_UID=1000 prolog
printf 'GPUMEMD_WAIT=0\nGPUMEMD_RECLAIM_WAIT=0\n' >"$place/slurm.conf"

# Jobs are known by their cgroups.
tree=
for folder in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
        if [ -z "$tree" ] && [ -e "$folder/cgroup.procs" ] &&
                mkdir -p "$folder/slurm-$$/slurm" 2>/dev/null; then
                tree=$folder
        fi
done
job=$((1000000000 + $$))
other=$((job + 1))
names=("epilog: what a job holds is told, and by whom" "epilog: nothing is left of a job that has ended"
        "epilog: nothing of it is cached" "epilog: another job keeps what it has")

leave() {
        local folder
        let_go "${!holders[@]}" 2>/dev/null || true
        for folder in "$tree/slurm-$$/slurm/uid_0/job_$job" "$tree/slurm-$$/slurm/uid_0/job_$other" \
                "$tree/slurm-$$/slurm/uid_0" "$tree/slurm-$$/slurm" "$tree/slurm-$$"; do
                [ ! -d "$folder" ] || wait_until 20 rmdir "$folder" || true
        done
        clear_place
}

# hold_in JOB NAME BYTES: as hold, in the job's cgroup.
hold_in() {
        local folder=$tree/slurm-$$/slurm/uid_0/job_$1
        mkdir -p "$folder"
        echo "$BASHPID" >"$folder/cgroup.procs"
        hold "$2" device "$3"
        echo "$BASHPID" >"$tree/cgroup.procs"
}

reserved_by() {
        gpumemctl tenants --json | tr -d ' \n' | grep -o '{[^{}]*}' | grep "\"job_$1\"" |
                sed -n 's/.*"reserved_bytes":\([0-9]*\).*/\1/p' | add_up
}

if [ -n "$tree" ]; then
        trap leave EXIT
        hold_in "$job" mine 64MiB
        hold_in "$other" theirs 32MiB
        ok "epilog: what a job holds is told, and by whom" said 1 "${holders[mine]}" slurmd "SLURM_JOB_ID=$job" epilog
        let_go mine
        echo GPUMEMD_RECLAIM_WAIT=60 >"$place/slurm.conf"
        ok "epilog: nothing is left of a job that has ended" slurmd "SLURM_JOB_ID=$job" epilog
        ok "epilog: nothing of it is cached" equal "$(reserved_by "$job")" 0
        ok "epilog: another job keeps what it has" equal "$(reserved_by "$other")" $((32 << 20))
        let_go theirs
else
        for name in "${names[@]}"; do
                skip "$name" "for root only, where cgroups can be made"
        done
fi
stop_daemon

# An epilog that fails drains the node, and no job would run there.
start_with_tenants() {
        printf '{"tenants": "%s"}\n' "$1" >"$place/tenants.conf"
        start_daemon --canary off --config "$place/tenants.conf"
}
printf 'GPUMEMD_RECLAIM_WAIT=0\nGPUMEMD_TENANT_BYTES=256MiB\n' >"$place/slurm.conf"
start_with_tenants uid
ok "epilog: tenants are users" said 0 "nothing is given back for job 7" slurmd SLURM_JOB_ID=7 SLURM_JOB_UID=1000 epilog
slurmd SLURM_JOB_UID=1000 prolog 2>/dev/null
ok "prolog: tenants are users" limit_is_set
stop_daemon
start_with_tenants client
ok "epilog: tenants are connections" said 0 "nothing is given back for job 7" slurmd SLURM_JOB_ID=7 epilog
slurmd SLURM_JOB_UID=1000 prolog 2>/dev/null
ok "prolog: tenants are connections" limit_is_set
stop_daemon
done_testing
