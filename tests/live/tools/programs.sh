#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# programs.sh BUILD: what gpumemd and gpumemctl say and how they exit.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"

make_place 2 1GiB
# Each is "NAME, MEMORY". Pools are numbered as the devices are, and those of pinned memory follow.
mapfile -t devices < <(gpumem-replay --list-devices)
last=$((${#devices[@]} - 1))

# ends_in_order NAME: the daemon does, on SIGTERM.
ends_in_order() {
        local status=0
        stop_daemon || status=$?
        ok "$1" equal "$status" 0
}

# For what is checked without a daemon that serves.
gpumemd() {
        env gpumemd --config "$place/empty.conf" "$@"
}

ok "gpumemd --help fits a screen" fits_a_screen gpumemd --help
ok "gpumemctl --help fits a screen" fits_a_screen gpumemctl --help
for command in $(gpumemctl --help | sed -n 's/^  \([a-z-]*\)  .*/\1/p'); do
        ok "gpumemctl $command --help fits a screen" fits_a_screen gpumemctl "$command" --help
done
ok "gpumem-replay --help fits a screen" fits_a_screen gpumem-replay --help
ok "gpumem-share-demo --help fits a screen" fits_a_screen gpumem-share-demo --help
ok "gpumemd --version" said 0 "gpumemd 0." gpumemd --version
ok "gpumemctl --version" said 0 "gpumemctl 0." gpumemctl --version
ok "gpumemd: an unknown option" said 2 "see gpumemd --help" gpumemd --nonsense
ok "gpumemd: an unknown option: by whom, however it was called" says_first "gpumemd: " "$(type -P gpumemd)" --nonsense
ok "gpumemd: a word too many" said 2 'unexpected argument "word" (only options' gpumemd word
ok "gpumemd: no size" said 2 'invalid --device-bytes "12parsec" (expected' gpumemd --device-bytes 12parsec
ok "gpumemd: a size too large" said 2 'invalid --device-bytes "8EiB" (expected 2MiB or more, less than 8EiB' gpumemd --device-bytes 8EiB
ok "gpumemd: help that is not written" said 1 "gpumemd: the output could not be written: No space left" sh -c 'gpumemd --help >/dev/full'
ok "gpumemd: a size too small" said 2 'invalid --pinned-bytes "1" (expected 2MiB' gpumemd --pinned-bytes 1
ok "gpumemd: no backing" said 2 'invalid --pinned-backing "paper" (expected memfd or vmm)' gpumemd --pinned-backing paper
ok "gpumemd: no choice of a canary" said 2 'invalid --canary "dead" (expected on or off)' gpumemd --canary dead
ok "gpumemd: no level" said 2 'invalid --log "loud" (expected error, warning, info or debug)' gpumemd --log loud
ok "gpumemd: no level in GPUMEM_LOG" said 2 'invalid GPUMEM_LOG "loud"' env GPUMEM_LOG=loud gpumemd
ok "gpumemd: no driver" said 3 "no usable CUDA driver" gpumemd --cuda-library /nonexistent.so
ok "gpumemd: no driver: how to go on" said 3 "on the emulated driver: gpumemd --cuda-library" \
        gpumemd --cuda-library /nonexistent.so
ok "gpumemd: a library that is no driver" said 3 "libm.so.6 has no cuInit" gpumemd --cuda-library libm.so.6
ok "gpumemd: an option without its value" said 2 "requires an argument" gpumemd --socket
if is_emulated; then
        ok "gpumemd: an emulator's option that is none" said 3 "'colour' is unknown; allowed are devices, bytes, dir, delay_us, copy_delay_us, reclaim_ms, ctx_bytes, dirty, peers, rdma, mig, fault_file, fail, delay, hang, lost and seed" \
                env GPUMEM_EMULATOR=colour=red gpumemd --config "$place/empty.conf"
else
        skip "gpumemd: an emulator's option that is none" "a GPU's driver has none"
fi
ok "gpumemd: no folder for the socket" said 1 "error: $place/no: this folder for the socket does not exist; create it" \
        gpumemd --socket "$place/no/s"
ok "gpumemd: a path too long" said 2 "(expected a path of 1-101 bytes)" gpumemd --socket "/$(printf '%0101d' 0)"
ok "gpumemd: an empty path" said 2 'invalid --socket "" (expected a path of 1-101 bytes)' gpumemd --socket ""
ok "gpumemd: a path too long in GPUMEM_SOCKET" said 1 "longer than 107 bytes" \
        env GPUMEM_SOCKET="$place/$(printf '%0110d' 0)" gpumemd --config "$place/empty.conf"
ok "gpumemd -h is --help" equal "$(gpumemd -h)" "$(gpumemd --help)"
for few in 18 127; do
        ok "gpumemd: $few files are too few" said 1 "cannot start: Too many open files; raise LimitNOFILE or ulimit -n" \
                sh -c 'ulimit -n "$3"; exec gpumemd --socket "$1" --config "$2"' sh "$place/few" "$place/empty.conf" "$few"
done
echo precious >"$place/file"
ok "gpumemd: a file where the socket should be" said 1 "it is left alone" gpumemd --socket "$place/file"
ok "no lock is left beside it" [ ! -e "$place/file.lock" ]
ok "the file is left alone" equal "$(cat "$place/file")" precious
mkdir -m 0777 "$place/open"
ok "gpumemd: a folder that every user may write to" said 1 "every user may write to it" gpumemd --socket "$place/open/s"
ok "gpumemd: no group" said 2 'invalid --group "no such" (expected a gid' gpumemd --group "no such"
if [ "$(id -u)" -eq 0 ]; then
        mkdir "$place/foreign"
        chown 65534 "$place/foreign"
        ok "gpumemd: another user's folder" said 1 "it belongs to another user" gpumemd --socket "$place/foreign/s"
        mkdir -m 0775 "$place/shared"
        chgrp 65534 "$place/shared"
        ok "gpumemd: another group's folder" said 1 "another group may write to it" gpumemd --socket "$place/shared/s"
else
        skip "gpumemd: another user's folder" "for root only"
        skip "gpumemd: another group's folder" "for root only"
fi
other_listener() {
        python3 -c 'import socket, subprocess, sys
s = socket.socket(socket.AF_UNIX, int(sys.argv[2]))
s.bind(sys.argv[1])
s.listen()
r = subprocess.run(["gpumemd", "--config", sys.argv[3], "--socket", sys.argv[1]], capture_output=True, text=True)
s.close()
print(r.stderr)
sys.exit(r.returncode)' "$place/other$1" "$1" "$place/empty.conf"
}
ok "gpumemd: another program's stream socket" said 1 "it is left alone" other_listener 1
ok "gpumemd: another program's seqpacket socket" said 1 "it is left alone" other_listener 5
ok "gpumemctl: no daemon" said 3 "$GPUMEM_SOCKET: No such file or directory: is gpumemd running" gpumemctl stats
ok "gpumemctl alone: no daemon: what to do" said 3 "systemctl start gpumemd" gpumemctl
ok "gpumemctl alone: no daemon: what to do without a GPU" said 3 'without a GPU: "make play"' gpumemctl
ok "gpumemctl alone: no daemon: three lines" equal "$(gpumemctl 2>&1 | wc -l)" 3
for command in stats clients why-oom limits watch; do
        ok "gpumemctl $command: no daemon: what to do" said 3 'without a GPU: "make play"' gpumemctl "$command"
done
ok "gpumemctl status: no daemon" said 3 "is gpumemd running" gpumemctl status
mkdir "$place/folder"
ok "gpumemctl: a folder as the socket" said 3 "$place/folder: a folder: not a socket" gpumemctl --socket "$place/folder" stats
ok "gpumemctl: a file as the socket" said 3 "$place/file: a file: not a socket" gpumemctl --socket "$place/file" stats
ok "gpumemctl: a file as the socket: two lines" equal "$(gpumemctl --socket "$place/file" 2>&1 | wc -l)" 2
# as_another COMMAND...: as a user that may not connect.
as_another() {
        setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}
# Whatever is in the way: a probe must not call the node unhealthy for it.
for command in health leaks metrics stats; do
        ok "gpumemctl $command: a path too long in GPUMEM_SOCKET" said 3 "longer than 107 bytes" \
                env GPUMEM_SOCKET="$place/$(printf '%0110d' 0)" gpumemctl "$command"
        if [ "$(id -u)" -eq 0 ]; then
                ok "gpumemctl $command: a user that may not connect" said 3 "owner and group may connect" \
                        as_another "$(type -P gpumemctl)" "$command"
        else
                skip "gpumemctl $command: a user that may not connect" "for root only"
        fi
done
ok "gpumemctl: two commands" said 2 'unexpected word "free-all" after stats' gpumemctl stats free-all
ok "gpumemctl: no time to wait" said 2 'invalid --wait "soon" (expected 0-' gpumemctl --wait soon stats
ok "gpumemctl: waits in vain" said 3 "No such file or directory" gpumemctl --wait 1 stats
ok "gpumemctl: no time for an answer" said 2 'invalid --timeout "0" (expected 1-' gpumemctl --timeout 0 stats
ok "gpumemctl: an empty path" said 2 'invalid --socket "" (expected a path of 1-107 bytes)' gpumemctl --socket "" stats
ok "gpumemctl: a path too long" said 2 "(expected a path of 1-107 bytes)" gpumemctl --socket "$place/$(printf '%0110d' 0)" stats
ok "gpumemctl: an unknown command" said 2 'unknown command "dance"; see gpumemctl help' gpumemctl dance
ok "gpumemctl: a mistyped command" said 2 'unknown command "stast"; did you mean "stats"?' gpumemctl stast
ok "gpumemctl: help of a mistyped command" said 2 'did you mean "stats"?' gpumemctl help stast
ok "gpumemctl: an unknown option" said 2 'unknown option "--nonsense"; see gpumemctl help' gpumemctl --nonsense
ok "gpumemctl: a mistyped option" said 2 'unknown option "--jsno"; did you mean "--json"? see gpumemctl help stats' \
        gpumemctl stats --jsno
ok "gpumemctl: a mistyped option with a value" said 2 'unknown option "--sockte"; did you mean "--socket"?' \
        gpumemctl --sockte=x stats
ok "gpumemctl: only options of the command are meant" said 2 'unknown option "--followw"; see gpumemctl help stats' \
        gpumemctl stats --followw
ok "gpumemctl: an unknown letter" said 2 'unknown option "-x"' gpumemctl stats -x
ok "gpumemctl: an option without its value" said 2 "--socket needs a value; see gpumemctl help stats" \
        gpumemctl stats --socket
ok "gpumemctl: a limit that is missing" said 2 "--set needs a value; see gpumemctl help limits" gpumemctl limits --set
ok "gpumemctl: an option with a value that it has not" said 2 "--json takes no value" gpumemctl stats --json=yes
ok "gpumemctl help is --help" equal "$(gpumemctl help)" "$(gpumemctl --help)"
ok "gpumemctl -h is --help" equal "$(gpumemctl -h)" "$(gpumemctl --help)"
ok "gpumemctl help COMMAND is COMMAND --help" equal "$(gpumemctl help stats)" "$(gpumemctl stats --help)"
many=$(printf 'h%.0s' {1..400})
ok "gpumemctl -hhh... is --help" equal "$(gpumemctl "-$many")" "$(gpumemctl --help)"
ok "gpumemctl COMMAND -h is COMMAND --help" equal "$(gpumemctl stats -h)" "$(gpumemctl stats --help)"
for word in help version; do
        ok "gpumemctl help $word is --help" equal "$(gpumemctl help "$word")" "$(gpumemctl --help)"
done
ok "gpumemctl help takes one command" said 2 'unexpected word "top" after help' gpumemctl help stats top
ok "gpumemctl version is --version" equal "$(gpumemctl version)" "$(gpumemctl --version)"
ok "gpumemctl: an unknown option: by whom, however it was called" says_first "gpumemctl: " "$(type -P gpumemctl)" --nonsense
ok "gpumemctl: no pool" said 2 'invalid --pool "x" (expected ' gpumemctl --pool x free-all

# config TEXT: the configuration file of the cases below.
config() {
        printf '%s' "$1" >"$place/gpumemd.conf"
}

# The checkout may be another user's.
cp "$source_folder/docs/gpumemd.conf.example" "$place/example.conf"
ok "--check-config: the example is right" said 0 "configuration is valid" gpumemd --check-config "$place/example.conf"
chmod 666 "$place/example.conf"
ok "--check-config: all may write to it" said 2 "example.conf: every user may write to it (mode 0666)" \
        gpumemd --check-config "$place/example.conf"
if [ "$(id -u)" -eq 0 ]; then
        ok "--check-config: who may" said 2 "(mode 0666); only root, as which this gpumemd runs, may: chmod o-w it" \
                gpumemd --check-config "$place/example.conf"
else
        skip "--check-config: who may" "for root only"
fi
printf '{"each_user": {"requests_per_second": 5}}' >"$place/warned.conf"
ok "--check-config: a warning names the file" said 0 "gpumemd: warning: $place/warned.conf: each_user.requests_per_second" \
        gpumemd --check-config "$place/warned.conf"
ok "--config: all may write to it" said 2 "example.conf: every user may write to it (mode 0666)" \
        gpumemd --config "$place/example.conf"
chmod 644 "$place/example.conf"
if [ "$(id -u)" = 0 ]; then
        chown 65534 "$place/example.conf"
        ok "--check-config: another user owns it" said 2 "example.conf: uid 65534 owns it and may change it" \
                gpumemd --check-config "$place/example.conf"
        ok "--config: another user owns it" said 2 "example.conf: uid 65534 owns it and may change it" \
                gpumemd --config "$place/example.conf"
fi
config '{"log": "info", "pools": [{"device": 0, "max_bytes": "12parsec"}], "x": 1}'
ok "--check-config: a wrong value" said 2 \
        "$place/gpumemd.conf: pools[0].max_bytes: invalid size \"12parsec\" (expected 2MiB or more" \
        gpumemd --check-config "$place/gpumemd.conf"
ok "--check-config: the other one too" said 2 "$place/gpumemd.conf: x: unknown key (expected" \
        gpumemd --check-config "$place/gpumemd.conf"
config '{"socket": "relative.sock"}'
ok "--check-config: a relative socket" said 2 'socket: invalid path "relative.sock" (expected an absolute path)' \
        gpumemd --check-config "$place/gpumemd.conf"
config '{"log": "info", "pools": [{"device": 0, "max_bytes": "12parsec"}], "x": 1}'
ok "--config: a wrong value" said 2 "pools[0].max_bytes" gpumemd --config "$place/gpumemd.conf"
config '{"log": "info",
 "pools": [}'
ok "--config: wrong syntax" said 2 "gpumemd: $place/gpumemd.conf:2:12: " gpumemd --config "$place/gpumemd.conf"
ok "--config: no such file" said 2 "$place/none: No such file" gpumemd --config "$place/none"
ok "gpumemctl: no limit" said 2 'invalid --set "x" (expected WHO:WHAT=N' gpumemctl limits --set x
ok "gpumemctl: a limit without a holder" said 2 'invalid --set "x" (expected client, tenant' gpumemctl limits --set x:leases=1
ok "gpumemctl: no user" said 2 'invalid --set "no one" (expected a uid or a user name)' gpumemctl limits --set "tenant/no one:leases=1"
ok "gpumemctl: not what a pool is limited in" said 2 'invalid --set "leases" (expected max_bytes, min' \
        gpumemctl limits --set pool/0:leases=1
ok "gpumemctl: no minimum" said 2 'invalid --set "none" (expected a size such as 12GiB or 0)' \
        gpumemctl limits --set pool/0:min_bytes=none
ok "gpumemctl: no seconds" said 2 'invalid --set "1m" (expected a number of seconds)' \
        gpumemctl limits --set pool/0:return_after_seconds=1m
ok "gpumemctl: no number" said 2 'invalid --set "1KiB" (expected a number of leases or none)' gpumemctl limits --set client:leases=1KiB
ok "gpumemctl: no size of a limit" said 2 'invalid --set "big" (expected a size such as 12GiB or none)' gpumemctl limits --set tenant:device_bytes=big
ok "gpumemctl: no default of a default" said 2 'invalid --set "default" (expected a size such as 12GiB or none)' \
        gpumemctl limits --set tenant:device_bytes=default
ok "gpumemctl: --set elsewhere" said 2 "only limits takes --set" gpumemctl stats --set client:leases=1

start_daemon --pinned-bytes 100TiB
ok "--pinned-bytes: more than there is" \
        grep -q "warning: pinned memory.*: the maximum of 100.00 TiB exceeds the memory that exists; using " "$place/gpumemd.log"
device_bytes=$(gpumemctl stats --json | sed -n 's/^ *"max_bytes": \([0-9]*\),*$/\1/p' |
        sed -n $((last + 1))p)
stop_daemon

# has_limit PATTERN: a row of gpumemctl limits is so.
has_limit() { gpumemctl limits | grep -Eq "^$1( +-)?\$"; }
# name_of POOL: as part of such a pattern.
name_of() {
        # shellcheck disable=SC2016  # Characters, no expansion.
        printf '%s\n' "${devices[$1]%, *}" | sed 's/[][().*+?^${}|\]/\\&/g'
}

# The part of the last device that is 512 MiB and a little.
half_gib=$(awk -v device="$device_bytes" 'BEGIN { printf "%.12f", 513 * 1048576 / device }')
config '{"pools": [{"device": "all", "max_fraction": '"$half_gib"', "min_bytes": "3MiB"}],
 "limits": {"tenant": {"device_bytes": "256MiB"}}}'
start_daemon --log info --config "$place/gpumemd.conf" --pinned-bytes 64MiB

# has_full_table: the kernel never has to make the daemon's table of files larger, which would hold up its threads.
has_full_table() {
        local size limit
        size=$(awk '$1 == "FDSize:" { print $2 }' "/proc/$daemon/status")
        limit=$(awk '/^Max open files/ { print ($4 == "unlimited" || $4 > 1000000 ? 1000000 : $4) }' "/proc/$daemon/limits")
        [ "$size" -ge "$limit" ] || { echo "it has $size places of $limit"; return 1; }
}

ok "the table of open files has its full size" has_full_table
ok "limits of the configuration: a pool's" has_limit "pool +$last  max_bytes +0 B +512.00 MiB  $(name_of "$last")"
ok "limits of the command line" has_limit "pool +$((last + 1))  max_bytes +0 B +64.00 MiB  pinned memory.*"
ok "limits of the configuration: a tenant's minimum" \
        grep -q "pool $last ($(name_of "$last")): each tenant keeps 3.00 MiB of its leases" "$place/gpumemd.log"
ok "limits of the configuration: it is shown" has_limit "pool +$last  min_bytes +- +3.00 MiB  $(name_of "$last")"
ok "limits of the configuration: each tenant's" has_limit "tenant +each  device_bytes +-  256.00 MiB"
# In a container the row ends with its name.
ok "limits of the configuration: one's" has_limit "tenant +$(id -u)  device_bytes +0 B  256.00 MiB( +[^ ]+)?"
ok "set" gpumemctl limits --set tenant/77:device_bytes=1GiB --set client:leases=9 \
        --set pool/0:max_bytes=100MiB --set tenant:device_bytes=none
# changed OLD NEW CHANGE: what --set says of it.
changed() { equal "$(gpumemctl limits --set "$3" | awk 'NR == 2 { print $4, $5, $6, $7 }' | xargs)" "$1 $2"; }
ok "set: old and new: a size" changed "1.00 GiB" "2.50 GiB" tenant/77:device_bytes=2.5GiB
ok "set: old and new: back" changed "2.50 GiB" "1.00 GiB" tenant/77:device_bytes=1GiB
ok "set: old and new: no limit" changed none "1.00 GiB" client:pinned_bytes=1GiB
ok "set: old and new: no limit again" changed "1.00 GiB" none client:pinned_bytes=none
ok "set: old and new: a number" changed 9 9 client:leases=9
ok "set: old and new: a default" changed default 5 tenant/79:leases=5
ok "set: old and new: for programs" equal "$(gpumemctl limits --json --set tenant/79:leases=default --set client:leases=9 |
        python3 -c 'import json, sys
print([(c["scope"], c["holder"], c["limit"], c["unit"], c["old"], c["new"]) for c in json.load(sys.stdin)["changes"]])')" \
        "[('tenant', 79, 'leases', 'count', 5, 'default'), ('client', None, 'leases', 'count', 9, 9)]"
ok "set: one's" has_limit "tenant +77  device_bytes +0 B +1.00 GiB"
ok "set: each client's" has_limit "client +each  leases +-  +9"
ok "set: a pool's" has_limit "pool +0  max_bytes +0 B +100.00 MiB  $(name_of 0)"
ok "set: a minimum" gpumemctl limits --set "pool/$last:min_bytes=5MiB"
ok "set: it is in force" has_limit "pool +$last  min_bytes +- +5.00 MiB  $(name_of "$last")"
ok "set: what stays" gpumemctl limits --set "pool/0:keep_cached_bytes=6MiB" --set "pool/0:return_after_seconds=90"
ok "set: so much is kept" has_limit "pool +0  keep_cached_bytes +0 B +6.00 MiB  $(name_of 0)"
ok "set: for so long" has_limit "pool +0  return_after_seconds +- +90  $(name_of 0)"
ok "set: free of no device" said 1 "only a device's pool has keep_free_bytes" \
        gpumemctl limits --set "pool/$((last + 1)):keep_free_bytes=1GiB"
ok "set: what stays for ever" said 2 'expected a size such as 12GiB or 0' \
        gpumemctl limits --set "pool/0:keep_cached_bytes=none"
ok "set: a minimum beyond the most" said 1 "min_bytes is at most max_bytes: 100.00 MiB" \
        gpumemctl limits --set pool/0:min_bytes=101MiB
ok "set: no limit for each tenant" said 1 "" has_limit "tenant +each  device_bytes.*"
ok "set: nonsense" said 1 "nothing was changed: --set number 1: a pool's max_bytes is at most its capacity" \
        gpumemctl limits --set "pool/$last:max_bytes=$((device_bytes + 2 * 1024 * 1024))"
ok "set: an exemption" gpumemctl limits --set tenant:device_bytes=3GiB --set tenant/78:device_bytes=none
ok "set: it is shown" has_limit "tenant +78  device_bytes +0 B +none"
ok "set: the log has it in the words of --set" \
        grep -q "audit: uid $(id -u), process [0-9]* (gpumemctl), admin socket: limit: tenant/78:device_bytes=none, revision" "$place/gpumemd.log"
ok "the log has the time" grep -Eq "^20[0-9-]{8}T[0-9:.]{12}Z gpumemd: info: audit: uid " "$place/gpumemd.log"
ok "set: a size in the log" grep -q "limit: tenant/77:device_bytes=1.00 GiB, revision" "$place/gpumemd.log"
ok "set: one wrong change of two" said 1 "nothing was changed: --set number 2: unknown pool 200 (valid: 0-" \
        gpumemctl limits --set client:leases=5 --set pool/200:max_bytes=1GiB
ok "set: the other was not made" has_limit "client +each  leases +-  +9"
ok "set: a minimum above a limit that is set with it" said 1 \
        "nothing was changed: --set number 2: pool/$last: min_bytes is at most max_bytes: 8.00 MiB" \
        gpumemctl limits --set "pool/$last:max_bytes=8MiB" --set "pool/$last:min_bytes=16MiB"
ok "set: neither was made" said 1 "" has_limit "pool +$last  max_bytes +0 B +8.00 MiB.*"
ok "set: the minimum is as it was" has_limit "pool +$last  min_bytes +- +5.00 MiB  $(name_of "$last")"
ok "set: a limit that makes room for a minimum before it" \
        gpumemctl limits --set pool/0:min_bytes=160MiB --set pool/0:max_bytes=200MiB
ok "set: both were made" has_limit "pool +0  min_bytes +- +160.00 MiB  $(name_of 0)"
ok "set: a limit below the minimum that there is" gpumemctl limits --set pool/0:max_bytes=150MiB
ok "set: that is warned of" wait_until 20 grep -q "warning: .*: min_bytes 160.00 MiB is not below the pool's maximum of 150.00 MiB" \
        "$place/gpumemd.log"
ok "set: as it was" gpumemctl limits --set pool/0:max_bytes=100MiB --set pool/0:min_bytes=0

# What --save does to a file, in which all else stays.
saved=$place/saved.conf
printf '{"log": "info", "pools": [{"device": "all", "max_bytes": "1GiB"}, {"device": 0, "max_fraction": 0.5}],
 "limits": {"tenants": [{"uid": 77, "leases": 3}, {"uid": "root", "leases": 4}]}, "drain_seconds": 7}' >"$saved"
chmod 0640 "$saved"
ok "save: without a change" said 2 "limits: --save needs --set; see gpumemctl help limits" gpumemctl limits --save
ok "save: an empty name" said 2 'invalid --save "" (expected the name of a file)' gpumemctl limits --set client:leases=9 --save=
ok "save: a folder" said 1 "nothing was changed: $place: not a regular file" gpumemctl limits --set client:leases=9 --save="$place"
mkfifo "$place/fifo"
ok "save: a FIFO" said 1 "nothing was changed: $place/fifo: not a regular file" \
        timeout 20 gpumemctl limits --set client:leases=9 --save="$place/fifo"
ok "save: a file as a word of its own" said 2 "$saved\": --save alone writes the file that gpumemd was started with; for another file it is --save=$saved" \
        gpumemctl limits --set client:leases=9 --save "$saved"
ok "save: it is said" said 0 "saved in $saved" gpumemctl limits --save="$saved" --set pool/0:max_bytes=96MiB \
        --set pool/0:keep_cached_bytes=0 --set client:leases=9 --set tenant:device_bytes=none \
        --set tenant/77:leases=default --set tenant/root:device_bytes=1536MiB --set "pool/$((last + 1)):return_after_seconds=90"
ok "save: the file" equal "$(python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))))' "$saved")" \
        '{"log": "info", "pools": [{"device": "all", "max_bytes": "1GiB"}, {"device": 0, "max_bytes": "96MiB", "keep_cached_bytes": 0}, {"pinned": 0, "return_after_seconds": 90}], "limits": {"tenants": [{"uid": "root", "leases": 4, "device_bytes": "1536MiB"}], "client": {"leases": 9}, "tenant": {"device_bytes": "none"}}, "drain_seconds": 7}'
ok "save: its mode stays" equal "$(stat -c %a "$saved")" 640
ok "save: gpumemd reads it" said 0 "configuration is valid" env gpumemd --check-config "$saved"
cp "$saved" "$place/before.conf"
ok "save: nothing, if gpumemd refuses" said 1 "nothing was changed: --set number 2: unknown pool 200" \
        gpumemctl limits --save="$saved" --set client:leases=5 --set pool/200:max_bytes=1GiB
ok "save: the file is as before" cmp "$saved" "$place/before.conf"
cp "$place/gpumemd.conf" "$place/before.conf"
ok "save: where gpumemd was told" said 0 "saved in $place/gpumemd.conf" gpumemctl limits --save --set client:leases=7
ok "save: what is in it then" python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["limits"]["client"]["leases"] != 7)' \
        "$place/gpumemd.conf"
cp "$place/before.conf" "$place/gpumemd.conf"
ok "save: a new file" said 0 "$place/new.conf was not there: the new file has these changes only" gpumemctl limits --save="$place/new.conf" --set client:leases=9
ok "save: what is in it" equal "$(tr -d ' \n' <"$place/new.conf")" '{"limits":{"client":{"leases":9}}}'
printf '{\n "log": }' >"$place/wrong.conf"
ok "save: no JSON" said 1 "nothing was changed: $place/wrong.conf:2:" gpumemctl limits --save="$place/wrong.conf" --set client:leases=8
ok "save: a wrong value" said 1 'a value of "limits" or "pools" is wrong' \
        sh -c 'echo "{\"limits\": 7}" >"$1"; gpumemctl limits --save="$1" --set client:leases=8' - "$place/wrong.conf"
ok "save: nothing was set then" has_limit "client +each  leases +-  +9"
ok "save: nowhere to write" said 1 "set, but not saved: $place/no/file: No such file" \
        gpumemctl limits --save="$place/no/file" --set client:leases=8
ok "save: it is set all the same" has_limit "client +each  leases +-  +8"
printf '{"pools": [{"device": 0, "max_bytes": "100MiB", "min_bytes": "50MiB"}]}' >"$place/minimum.conf"
cp "$place/minimum.conf" "$place/before.conf"
ok "save: a file that gpumemd would refuse" \
        said 1 "nothing was changed: $place/minimum.conf: pools[0] would have min_bytes of 50.00 MiB, above its max_bytes of 20.00 MiB" \
        gpumemctl limits --save="$place/minimum.conf" --set pool/0:max_bytes=20MiB
ok "save: that file is as before" cmp "$place/minimum.conf" "$place/before.conf"
ok "save: and nothing was set" has_limit "pool +0  max_bytes +0 B +96.00 MiB  $(name_of 0)"
ok "save: with both changed" said 0 "saved in $place/minimum.conf" \
        gpumemctl limits --save="$place/minimum.conf" --set pool/0:max_bytes=20MiB --set pool/0:min_bytes=10MiB
ok "save: gpumemd reads it then" said 0 "configuration is valid" env gpumemd --check-config "$place/minimum.conf"
gpumemctl limits --set pool/0:max_bytes=96MiB --set pool/0:min_bytes=0 >/dev/null
ln -s saved.conf "$place/link.conf"
ok "save: a link stays" said 1 "not saved: $place/link.conf: not a regular file" gpumemctl limits --save="$place/link.conf" --set client:leases=9
gpumemctl limits --set pool/0:max_bytes=100MiB --set tenant/root:device_bytes=default --set tenant/root:leases=default >/dev/null
ok "limits as JSON" sh -c 'gpumemctl limits --json | python3 -m json.tool'
config '{"pools": 7}'
kill -HUP "$daemon"
ok "SIGHUP: a wrong file is reported" wait_until 20 grep -q "pools: invalid list 7 (expected" "$place/gpumemd.log"
ok "SIGHUP: and not taken over" wait_until 20 grep -q "reload failed; the old configuration stays in force" "$place/gpumemd.log"
ok "SIGHUP: all is as before" has_limit "tenant +77  device_bytes +0 B +1.00 GiB"
config '{"socket": "/elsewhere", "pools": [{"device": '"$last"', "max_bytes": "32MiB"}]}'
kill -HUP "$daemon"
ok "SIGHUP: a pool's limit" wait_until 20 has_limit "pool +$last  max_bytes +0 B +32.00 MiB  $(name_of "$last")"
if [ "$last" -gt 0 ]; then
        ok "SIGHUP: the others are the defaults" has_limit "pool +0  max_bytes +0 B +${devices[0]##*, }  $(name_of 0)"
else
        skip "SIGHUP: the others are the defaults" "one device only"
fi
ok "SIGHUP: what was set is gone" said 1 "" has_limit "tenant +77.*"
ok "SIGHUP: the log has what changed" \
        grep -q "limit: tenant/77:device_bytes=default, before: 1.00 GiB" "$place/gpumemd.log"
ok "SIGHUP: a minimum that is gone" grep -q "pool $last (.*): each tenant keeps 0 B of its leases" "$place/gpumemd.log"
ok "SIGHUP: and of each" grep -q "limit: client:leases=none, before: 9" "$place/gpumemd.log"
ok "SIGHUP: a socket does not move" grep -q '"socket" has changed; this takes effect when' "$place/gpumemd.log"
ok "SIGHUP: a backing that is the same is not spoken of" said 1 "" grep "backing has changed" "$place/gpumemd.log"
config '{"user": 77, "tenants": "uid", "pools": [{"device": 99, "max_bytes": "32MiB"},
                               {"device": '"$last"', "max_bytes": "32MiB", "ipc": "legacy"},
                               {"pinned": "all", "backing": "vmm"}]}'
kill -HUP "$daemon"
ok "SIGHUP: a backing does not change" \
        wait_until 20 grep -q "its backing has changed; this takes effect when" "$place/gpumemd.log"
ok "SIGHUP: a device that there is not" grep -q \
        'warning: pools\[0\] of the configuration ("device": 99) matches no pool of this machine; it has no effect$' "$place/gpumemd.log"
ok "SIGHUP: the others are there" said 1 "" grep 'pools\[[12]\] of the configuration' "$place/gpumemd.log"
ipc_and_user_stay() {
        wait_until 20 grep -q 'its "ipc" has changed; this takes effect when' "$place/gpumemd.log" &&
                wait_until 20 grep -q '"user" has changed; this takes effect when' "$place/gpumemd.log"
}
ok "SIGHUP: ipc and user do not change" ipc_and_user_stay
ok "SIGHUP: it serves" gpumemctl stats
ok "stats shows the new limit" said 0 " 32.0M " gpumemctl stats
ends_in_order "SIGTERM ends it in order"

echo '{"pools": [{"device": 0, "ipc": "legacy"}]}' >"$place/legacy.conf"
ok "legacy CUDA IPC without a user" said 2 '"legacy" requires "user"' env gpumemd --config "$place/legacy.conf"
ok "legacy CUDA IPC without a user: --check-config" said 2 '"legacy" requires "user"' \
        env gpumemd --check-config "$place/legacy.conf"
config '{"user": '"$(id -u)"', "pools": [{"device": 0, "ipc": "legacy"}]}'
ok "legacy CUDA IPC for a user's containers apart" said 2 'the pool may serve one user only' env gpumemd --config "$place/gpumemd.conf"
config '{"user": '"$(id -u)"', "tenants": "uid", "pools": [{"device": 0, "ipc": "legacy"}]}'
start_daemon --config "$place/gpumemd.conf"
ok "legacy CUDA IPC: what is lost is said" \
        grep -q '"ipc" is "legacy": any user who learns a handle can open' "$place/gpumemd.log"
stop_daemon

start_daemon --device-bytes 512MiB --pinned-bytes 64MiB --canary off
kill -STOP "$daemon"
ok "a stopped daemon does not answer" \
        said 3 "gpumemd (process $daemon) at $GPUMEM_SOCKET.admin has not answered for 1 s: is it stopped" \
        gpumemctl --timeout 1 stats
kill -CONT "$daemon"
ok "and does when it goes on" gpumemctl stats
# A socket that another user can see, and not open: its group decides what helps.
if [ "$(id -u)" -eq 0 ]; then
        ctl=$(type -P gpumemctl)
        chmod 711 "$place"
        ok "a socket of root's group: what to do" said 3 "start gpumemd with --group GROUP" as_another "$ctl" stats
        chgrp daemon "$GPUMEM_SOCKET"
        ok "a socket of another group: what to do" said 3 '"usermod --append --groups daemon USER" as root' \
                as_another "$ctl" stats
        chmod 700 "$place"
else
        skip "a socket of root's group: what to do" "for root only"
        skip "a socket of another group: what to do" "for root only"
fi
ok "a second daemon is refused" said 1 "another gpumemd serves" gpumemd
ok "the first one goes on" gpumemctl stats
ok "stats names each pool" said 0 "${devices[$last]%, *}" gpumemctl stats --wide
ok "stats tells what is free, and what of it its holder alone can use" said 0 " FREE  SPLIT  LARGEST " gpumemctl stats --wide
ok "stats of one pool" equal "$(gpumemctl stats --pool "$last" | awk '{ print $1 }' | paste -sd " ")" "POOL $last"
ok "stats of one pool, as JSON" equal "$(gpumemctl stats --json --pool "$last" |
        python3 -c 'import json, sys; print([pool["pool"] for pool in json.load(sys.stdin)["pools"]])')" "[$last]"
ok "stats of a pool that there is not" said 1 "gpumemctl: stats: unknown pool 77 (valid: 0-" gpumemctl stats --pool 77
ok "stats shows the limit" said 0 " 512M " gpumemctl stats
ok "status shows the same limit" grep -Eq '^  0 .* 0 B of  512.00 MiB$' <(gpumemctl status)
ok "status says what it is" grep -q "^Pools: .* RESERVED of  *OF$" <(gpumemctl status)
ok "devices has the device's memory, by another word" equal \
        "$(gpumemctl devices --wide | sed -n '1s/ *[A-Z]* *NAME *\([A-Z]*\) .*/\1/p')" TOTAL
columns_line_up() {
        # Every row ends in the same column as the heading.
        gpumemctl "$@" | awk 'NR == 1 { n = length } length != n { exit 1 }'
}
for command in stats clients tenants blocks; do
        ok "the table of $command lines up" columns_line_up $command
        ok "the wide table of $command does" columns_line_up $command --wide
done
for command in stats clients blocks tenants reset-peaks; do
        ok "the JSON of $command is JSON" sh -c "gpumemctl $command --json | python3 -m json.tool"
done
printf 'a 1 4096 0\nf 1\n' | gzip >"$place/tiny.trace.gz"
gpumem-replay "$place/tiny.trace.gz" >"$place/tiny.log"
ok "a block without properties has none in JSON" said 0 '"properties": null' gpumemctl blocks --json
ok "and a dash in the table" said 0 " -" gpumemctl blocks
gpumemctl free-all >"$place/tiny.log"
peaks() { gpumemctl stats --wide | awk 'NR > 1 { print $(NF - 1), $NF }' | sort -u; }
ok "stats --wide: PEAK stays when memory has gone back" [ "$(peaks)" != "0 B" ]
gpumemctl reset-peaks
ok "reset-peaks: PEAK of stats --wide begins again" equal "$(peaks)" "0 B"
ok "reset-peaks: its help says so" said 0 "PEAK of tenants and of the wide table of stats" gpumemctl help reset-peaks
ok "and the list of commands" said 0 "PEAK of tenants and stats --wide" gpumemctl help
ok "clients names itself" said 0 " gpumemctl" gpumemctl clients
ok "tenants has the user" said 0 "\"uid\": $(id -u)," gpumemctl tenants --json
ok "tenants in a pool" equal "$(gpumemctl tenants --pool 1 | awk 'NR > 1 { print $2 }' | sort -u)" 1
ok "tenants in an unknown pool" said 1 "unknown pool 77 (valid: 0-" gpumemctl tenants --pool 77
ok "blocks of an unknown pool" said 1 "unknown pool 77 (valid: 0-" gpumemctl --pool 77 blocks
ok "reset-peaks of an unknown pool" said 1 "unknown pool 77 (valid: 0-" gpumemctl --pool 77 reset-peaks
ok "the JSON has every figure" said 0 '"lingering_bytes": 0' gpumemctl stats --json
ok "free-all with nothing cached" said 0 "0 B in 0 blocks" gpumemctl free-all
ok "free-all for programs" said 0 '"freed_bytes": 0' gpumemctl free-all --json
ok "free-all of an unknown pool" said 1 "unknown pool 77 (valid: 0-" gpumemctl free-all --pool 77
ok "blocks takes no tenant" said 2 "blocks takes no --tenant" gpumemctl blocks --tenant
ok "gpumemctl alone takes no option of a command" said 2 "--pid needs a command; see gpumemctl help" gpumemctl --pid x
ok "devices narrows nothing" said 2 "devices takes no --pool" gpumemctl devices --pool 0
ok "a write error is a failure" said 1 "No space left" sh -c 'gpumemctl stats >/dev/full'
for i in {1..32}; do
        changes+=(--set "tenant/$((1000 + i)):leases=$i")
done
gpumemctl limits "${changes[@]}" >/dev/null
ok "a write error of a long answer too" said 1 "could not be written: No space left" \
        sh -c 'gpumemctl limits --json >/dev/full'
ok "nowhere to write is a failure" said 1 "could not be written: Bad file descriptor" sh -c 'gpumemctl stats --json >&-'
ok "and nothing is said to the daemon instead" [ ! -s "$place/gpumemd.log" ]

ends_in_order "SIGTERM ends the daemon in order"
ok "its socket is gone" [ ! -e "$GPUMEM_SOCKET" ]
ok "and the admin socket" [ ! -e "$GPUMEM_SOCKET.admin" ]

start_daemon
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null || true
ok "a socket that no daemon serves" said 3 "$GPUMEM_SOCKET.admin: Connection refused: is gpumemd running" gpumemctl stats
ok "SIGKILL leaves the socket's file" [ -e "$GPUMEM_SOCKET" ]
start_daemon
ok "the next daemon takes its place" gpumemctl stats
ends_in_order "and ends in order"

env gpumemd --config "$place/empty.conf" <&- >&- 2>&- &
daemon=$!
ok "a daemon without standard files serves" wait_until 20 gpumemctl stats
is_nothing() { equal "$(readlink "/proc/$daemon/fd/$1")" /dev/null; }
ok "it prints into no other file" is_nothing 2
ends_in_order "it ends in order, too"

# answer_to_another: what the daemon says first to another user.
answer_to_another() {
        python3 -B -c '
import os, socket, sys
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(10)
s.connect(sys.argv[1])
print(s.recv(4096).decode(errors="replace"))' "$GPUMEM_SOCKET"
}

if [ "$(id -u)" -eq 0 ] && unshare -U -r true 2>/dev/null; then
        env unshare -U -r gpumemd --config "$place/empty.conf" 2>"$place/gpumemd.log" &
        daemon=$!
        chmod 0711 "$place"
        wait_until 20 gpumemctl stats
        chmod 0666 "$GPUMEM_SOCKET"
        ok "in a user namespace users without a uid are not taken for one" \
                contains "$(answer_to_another | tr -d '\0')" "this user has no uid in gpumemd's user namespace"
        ok "and its own user is served" gpumemctl stats
        ends_in_order "and it ends in order there"
else
        skip "in a user namespace users without a uid are not taken for one" "needs root, and user namespaces"
fi
done_testing
