#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# exporter.sh BUILD: gpumemd-exporter with a daemon and without, and with clients of all kinds. What it
# says is read by Prometheus's own tools.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../daemon.sh"

make_place 2 1GiB
export PATH=$build/metrics:$PATH PYTHONDONTWRITEBYTECODE=1

# start_exporter OPTION...: sets `exporter`, the process, and `port`.
start_exporter() {
        # What an earlier one said is not this one's.
        rm -f "$place/exporter.log"
        gpumemd-exporter --listen 127.0.0.1:0 "$@" 2>"$place/exporter.log" &
        exporter=$!
        wait_while_alive "$exporter" grep -q 'metrics are at' "$place/exporter.log"
        port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics$|\1|p' "$place/exporter.log")
}

# The same as scrape.py's, but quicker.
get() {
        local status
        exec {server}<>"/dev/tcp/127.0.0.1/$port"
        printf 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n' >&"$server"
        read -r status <&"$server"
        sed '1,/^\r$/d' <&"$server"
        exec {server}>&-
        contains "$status" "HTTP/1.1 200 "
}

scrape() {
        local deed=$1
        shift
        if [ "$deed" = get ] && [ $# -eq 0 ]; then
                get
                return
        fi
        python3 "$source_folder/tests/metrics/scrape.py" "$deed" "$port" "$@"
}

ok "--help fits a screen" fits_a_screen gpumemd-exporter --help
ok "--version" said 0 "gpumemd-exporter 0." gpumemd-exporter --version
ok "an unknown option" said 2 "see gpumemd-exporter --help" gpumemd-exporter --nonsense
ok "an unknown option: by whom, however it was called" says_first "gpumemd-exporter: " "$(type -P gpumemd-exporter)" --nonsense
ok "a word too many" said 2 'unexpected argument "word" (only options' gpumemd-exporter word
ok "no address" said 2 'invalid --listen "9:9" (expected an address such as' gpumemd-exporter --listen 9:9
ok "no time" said 2 'invalid --timeout "0" (expected 1-60 seconds)' gpumemd-exporter --timeout 0
ok "no path" said 2 'invalid --socket "" (expected a path of 1-107 bytes)' gpumemd-exporter --socket ""
ok "no level" said 2 'invalid --log "loud" (expected error, warning, info or debug)' gpumemd-exporter --log loud

# Prometheus's parsers: promtool's of the text format, which also lints, and the server's of OpenMetrics, which
# wants a time in each sample where it is read from a file.
lint() {
        promtool check metrics
}

parse() {
        local text=$place/open.$1
        sed '/^[^#]/s/$/ 1700000000/' >"$text"
        grep -q '^# EOF' "$text" || { echo "no end"; return 1; }
        promtool tsdb create-blocks-from openmetrics "$text" "$place/tsdb.$1"
}

hostile_is_linted() {
        "$build/tests/metrics/metrics-text" text | lint
}

hostile_is_parsed() {
        "$build/tests/metrics/metrics-text" openmetrics | parse hostile
}

ok "promtool takes hostile names" hostile_is_linted
ok "the parser of OpenMetrics takes hostile names" hostile_is_parsed

ok "gpumemctl metrics --help fits a screen" fits_a_screen gpumemctl metrics --help
ok "gpumemctl metrics: no format" said 2 'invalid --format "csv" (expected openmetrics, text)' \
        gpumemctl metrics --format csv
ok "gpumemctl metrics: without a daemon" said 3 "gpumemd_up 0" gpumemctl metrics
ok "gpumemctl metrics: without a daemon it says why" said 3 "is gpumemd running" gpumemctl metrics
ok "gpumemctl metrics: a file without a daemon" said 3 "is gpumemd running" \
        gpumemctl metrics --output "$place/gpumemd.prom"
ok "the file says so" grep -qx 'gpumemd_up 0' "$place/gpumemd.prom"

start_exporter --timeout 1 --tenants
ok "a second one says that the address is taken" said 1 "Address already in use" \
        gpumemd-exporter --listen "127.0.0.1:$port"

# value NAME: of one sample.
value() {
        scrape get | sed -n "s/^$1 //p"
}

is_up() {
        equal "$(value gpumemd_up)" "$1"
}

has_no_pools() {
        ! scrape get | grep gpumemd_pool
}

ok "without a daemon gpumemd_up is 0" is_up 0
ok "and there are no figures of pools" has_no_pools
ok "the log says why" grep -q "does not answer: $GPUMEM_SOCKET: No such file" "$place/exporter.log"

start_daemon --canary on
ok "with a daemon it is 1" wait_while_alive "$exporter" is_up 1

# A client that allocates and frees while a file exists.
printf 'a %d 4096 0\n' {0..63} | gzip >"$place/load.trace.gz"
touch "$place/load"
while [ -e "$place/load" ]; do
        gpumem-replay --name load --devices "$n_devices" --pinned-every 8 "$place/load.trace.gz" ||
                true
done >/dev/null 2>&1 &
load=$!

leases_were_granted() {
        [ "$(scrape get | sed -n 's/^gpumemd_pool_cache_grants_total{.*} //p' | add_up)" -gt 0 ]
}

under_load_is_linted() {
        scrape get | lint
}

under_load_is_parsed() {
        scrape get openmetrics | parse load
}

# What the textfile collector would find at any moment.
file_is_always_whole() {
        touch "$place/writing"
        while [ -e "$place/writing" ]; do
                gpumemctl metrics --format text --output "$place/gpumemd.prom" || exit 1
        done &
        local writer=$! n
        for n in {1..200}; do
                equal "$(tail -n 1 "$place/gpumemd.prom")" '# EOF' || break
        done
        rm "$place/writing"
        wait "$writer" && equal "$n" 200
}

mode_is_for_all() {
        equal "$(stat -c %a "$place/gpumemd.prom")" 644
}

nothing_is_left_beside() {
        equal "$(find "$place" -name 'gpumemd.prom?*')" ""
}

# The names and labels of samples.
series() {
        sed -n 's/^\([^#].*\) [^ ]*$/\1/p'
}

ctl_says_the_same() {
        diff <(gpumemctl metrics --format text --tenants | series) \
                <(scrape get | grep -v gpumemd_exporter | series)
}

ctl_is_parsed() {
        gpumemctl metrics | parse ctl
}

ok "its figures go up" wait_while_alive "$exporter" leases_were_granted
ok "promtool has nothing to say of them" under_load_is_linted
ok "the parser of OpenMetrics takes them" under_load_is_parsed
ok "both formats say the same" scrape agree
ok "the parser of OpenMetrics takes gpumemctl's" ctl_is_parsed
ok "a file is whole at any moment" file_is_always_whole
ok "everybody may read it" mode_is_for_all
ok "nothing is left beside it" nothing_is_left_beside
ok "gpumemctl metrics: a folder" said 1 "is not a regular file; it was not changed" \
        gpumemctl metrics --output "$place"
ok "gpumemctl metrics: a folder that is not there" said 1 "--output: $place/no/file: No such file or directory" \
        gpumemctl metrics --output "$place/no/file"
rm "$place/load"
wait "$load" || true

# As gpumemctl has it, once nothing changes any more.
same_as_gpumemctl() {
        equal "$(scrape get | sed -n 's/^gpumemd_pool_reserved_bytes{.*} //p' | xargs)" \
                "$(gpumemctl stats --json | sed -n 's/^ *"reserved_bytes": \([0-9]*\),/\1/p' | xargs)"
}

ok "gpumemctl metrics has the same series" ctl_says_the_same
ok "they are gpumemctl's" wait_while_alive "$exporter" same_as_gpumemctl
tenants_are_told() {
        scrape get | grep "^gpumemd_tenant_reserved_bytes{.*uid=\"$(id -u)\",container=\""
}
ok "with --tenants a tenant has its own" tenants_are_told

served_by_few() {
        local served asks
        read -r served _ asks <<<"$(scrape crowd 50)"
        equal "$served" 50 && [ "$asks" -lt 25 ]
}
ok "a crowd shares answers" served_by_few

ok "another path is not found" equal "$(scrape status GET /)" 404
ok "another method is not allowed" equal "$(scrape status POST /metrics)" 405
ok "HEAD is answered" equal "$(scrape status HEAD /metrics)" 200
ok "a crowd that sends half a request keeps no other out" equal "$(scrape slow)" "512 cut"
ok "a crowd that says nothing and comes again keeps no other out" equal "$(scrape restless)" served
scrape dripping >"$place/dripping" 2>&1 &
dripping=$!
ok "a body without end is cut off" equal "$(scrape endless-body)" cut
wait "$dripping" || true
ok "one that asks for ever is cut off" equal "$(cat "$place/dripping")" cut
ok "headers without end are cut off" equal "$(scrape endless-headers)" cut
ok "a client that does not read keeps no other out" equal "$(scrape deaf)" served
ok "noise harms no client" equal "$(scrape noise)" served

no_connection_is_open() {
        [ "$(find "/proc/$exporter/fd" -lname 'socket:*' | wc -l)" -le "$n_sockets" ]
}
# The one that listens.
n_sockets=1
ok "no connection stays open" wait_while_alive "$exporter" no_connection_is_open

kill -STOP "$daemon"
ok "a daemon that is stopped is away" wait_while_alive "$exporter" is_up 0
takes_little() {
        [ "$(scrape hoard)" -lt 49152 ]
}
ok "of a request that waits little more is taken" takes_little
kill -CONT "$daemon"
ok "and back when it goes on" wait_while_alive "$exporter" is_up 1
stop_daemon
ok "a daemon that has ended is away" wait_while_alive "$exporter" is_up 0
start_daemon --canary on
ok "the next one is found" wait_while_alive "$exporter" is_up 1
ok "and told" equal "$(value gpumemd_exporter_restarts_total)" 1
ok "the log says that it is back" grep -q 'answers again' "$place/exporter.log"

kill -STOP "$daemon"
wait_while_alive "$exporter" is_up 0
kill -TERM "$exporter"
status=0
wait "$exporter" || status=$?
ok "SIGTERM ends it, though the daemon is silent" equal "$status" 0
kill -CONT "$daemon"

start_exporter
without_tenants() {
        is_up 1 && ! scrape get | grep gpumemd_tenant
}
ok "without --tenants there are none" without_tenants
kill -INT "$exporter"
status=0
wait "$exporter" || status=$?
ok "SIGINT ends it" equal "$status" 0
stop_daemon

# Each of its answers comes in time, and all of them together do not.
rm -f "$GPUMEM_SOCKET"
python3 "$source_folder/tests/metrics/odd_daemon.py" "$source_folder" "$GPUMEM_SOCKET" slow &
slow=$!
wait_while_alive "$slow" grep -q "$GPUMEM_SOCKET" /proc/net/unix
start_exporter --timeout 1
has_failed() {
        [ "$(value gpumemd_exporter_failures_total)" -gt 0 ]
}
ok "a slow daemon is away" wait_while_alive "$slow" is_up 0
ok "that counts as a failure" wait_until 20 has_failed
ok "what came late is there for the next" wait_while_alive "$exporter" is_up 1
kill -KILL "$slow" "$exporter"
wait "$slow" "$exporter" 2>/dev/null || true
done_testing
