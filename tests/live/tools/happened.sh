#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# happened.sh BUILD: gpumemctl's commands about what has happened, and what is left over: events, why-oom, leaks,
# reclaim.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"
# shellcheck source=tests/holding.sh
. "$source_folder/tests/holding.sh"

make_place 1 1GiB
me=$(id -u)

# What is refused before anybody is asked.
ok "events: no number" said 2 'invalid --since "soon" (expected a number of the column EVENT)' \
        gpumemctl events --since soon
ok "events: no process" said 2 'invalid --pid "0" (expected 1-2147483647)' gpumemctl events --pid 0
ok "events: no user" said 2 'invalid --uid "no one" (expected a uid or a user name)' gpumemctl events --uid "no one"
ok "events: no kind" said 2 'invalid --what "turned" (expected connected, ended, granted, ' gpumemctl events --what turned
ok "events: not so many" said 2 'invalid --last "0" (expected 1-2147483647)' gpumemctl events --last 0
ok "events: no daemon" said 3 "is gpumemd running" gpumemctl events
ok "events: no daemon to follow" said 3 "is gpumemd running" gpumemctl events --follow
ok "why-oom: no process" said 2 'invalid --pid "0" (expected 1-2147483647)' gpumemctl why-oom --pid 0
ok "why-oom: no user" said 2 'invalid --uid "no one"' gpumemctl why-oom --uid "no one"
ok "why-oom: no number" said 2 'invalid --last "x" (expected 1-2147483647)' gpumemctl why-oom --last x
ok "why-oom: no daemon" said 3 "is gpumemd running" gpumemctl why-oom
ok "leaks: no time" said 2 'invalid --older "x" (expected 0-1000000 seconds)' gpumemctl leaks --older x
ok "leaks: no daemon" said 3 "is gpumemd running" gpumemctl leaks
ok "reclaim: of no tenant" said 2 "reclaim needs --uid or --cgroup; see gpumemctl help reclaim" gpumemctl reclaim
ok "reclaim: no user" said 2 'invalid --uid "no one"' gpumemctl reclaim --uid "no one"
ok "reclaim: no container" said 2 'invalid --cgroup "" (expected a name of' gpumemctl reclaim --cgroup ""
ok "reclaim: no daemon" said 3 "is gpumemd running" gpumemctl reclaim --uid 1

start_daemon --canary off --device-bytes 1GiB

# answer EXPRESSION COMMAND...: of the JSON that the command prints, with any exit status; `a` is all of it.
answer() {
        local expression=$1
        shift
        { gpumemctl "$@" --json || true; } |
                python3 -c 'import json, sys
a = json.load(sys.stdin)
print(eval(sys.argv[1]))' "$expression"
}

# refuse BYTES: a process that asks for so much, which is too much, and has ended after that.
refuse() {
        printf 'alloc device %s\nquit\n' "$(numfmt --from=auto "${1%B}")" | gpumem-share-demo >"$place/refused" 2>&1 || true
        grep -q "^error 1:" "$place/refused"
}

# tell NAME LINE: a holder is told something; its answer.
tell() {
        local fd=${1}_fd n
        fd=${!fd}
        n=$(wc -l <"$place/$1.out")
        echo "$2" >&"$fd"
        wait_while_alive "${holders[$1]}" has_lines "$place/$1.out" $((n + 1))
        tail -n 1 "$place/$1.out"
}

# gpumemctl_says EXPRESSION VALUE COMMAND...: see answer.
gpumemctl_says() {
        local expression=$1 value=$2
        shift 2
        [ "$(answer "$expression" "$@")" = "$value" ]
}

has_lines() {
        [ "$(wc -l <"$1")" -ge "$2" ]
}

# The process is stopped, and stands.
suspend() {
        kill -STOP "$1"
        wait_until 20 grep -q "^State:.T" "/proc/$1/status"
}

ok "why-oom: nothing yet" equal "$(gpumemctl why-oom)" "nothing was refused for lack of memory"
ok "why-oom: nothing yet: JSON" equal "$(answer 'a["refusals"]' why-oom)" "[]"
ok "leaks: none" said 0 "gpumemctl: nothing that this user may see seems to be leaked for 60 s or longer" gpumemctl leaks
ok "leaks: none of an age" said 0 " seems to be leaked for 0 s or longer (--older)" gpumemctl leaks --older 0
ok "events: none" said 0 "gpumemctl: gpumemd remembers no such event that this user may see" gpumemctl events --pid 2147483647
ok "events: what gpumemd does has no program" said 0 "  gpumemd $(gpumemd --version | cut -d " " -f 2) started" gpumemctl events
ok "leaks: none: JSON" equal "$(answer 'a["leaks"]' leaks)" "[]"

# --follow begins with what there is, and goes on.
gpumemctl events --follow >"$place/follow" 2>&1 &
follower=$!
gpumemctl events --follow --json >"$place/follow.json" 2>"$place/follow.said" &
other=$!
hold first device 768MiB
# Another sees grants only, the last one and those that come.
gpumemctl events --follow --json --what granted --last 1 >"$place/grants" &
granted=$!
wait_while_alive "$granted" grep -q '"bytes":805306368,' "$place/grants"
hold second pinned 4MiB
# And one what becomes of a process.
gpumemctl events --follow --json --pid "${holders[second]}" --uid "$me" >"$place/fate" &
fate=$!
ok "events --follow: lines come while it runs" \
        wait_while_alive "$follower" grep -q "granted .* ${holders[second]} " "$place/follow"
ok "events --follow: from the beginning on" contains "$(sed -n 2p "$place/follow")" "gpumemd $(gpumemd --version | cut -d " " -f 2) started"
kill -INT "$follower"
status=0
wait "$follower" || status=$?
ok "events --follow: an interrupt ends it in order" equal "$status" 0
ok "events --follow --json: an object each line" wait_while_alive "$other" \
        grep -q "\"pid\":${holders[second]},.*\"time\":" "$place/follow.json"
ok "events --follow --json: each is JSON" python3 -c 'import json, sys
for line in open(sys.argv[1]):
    if line.endswith("\n"): assert json.loads(line)["event"] > 0' "$place/follow.json"

unwritable() {
        local status=0
        timeout 20 gpumemctl events --follow >/dev/full 2>"$place/unwritten" || status=$?
        equal "$status" 1 && contains "$(cat "$place/unwritten")" "could not be written"
}
ok "events --follow: a write error ends it" unwritable

ok "events: a line each" contains "$(gpumemctl events)" "granted          1  $(printf '%5s  %7s' "$me" "${holders[first]}")     0  768.00 MiB  gpumem-share-demo"
ok "events: JSON" equal "$(answer '[e["bytes"] for e in a["events"] if e["what"] == "granted"]' events)" \
        "[$((768 << 20)), $((4 << 20))]"
# The time of what happened does not depend on when that is asked.
as_before() {
        local i before
        before=$(answer "$1" events)
        for i in 1 2 3 4 5 6 7 8; do
                [ "$(answer "$1" events)" = "$before" ] || return 1
        done
}
ok "events: TIME stays as it was" as_before '[e["time"] for e in a["events"] if e["what"] == "granted"]'
ok "events: TIME is the number's" equal "$(answer 'a["events"][0]["event"] // 1000 % 1000' events)" \
        "$(answer 'int(a["events"][0]["time"][-4:-1])' events)"
ok "events: nothing is lost yet" equal "$(answer 'a["lost_count"]' events)" 0
ok "events: who only looks is not told of" equal \
        "$(answer '[e for e in a["events"] if e["program"] == "gpumemctl"]' events)" "[]"
next=$(answer 'a["events"][1]["event"]' events)
ok "events --since: from that one on" equal "$(answer 'a["events"][0]["event"]' events --since "$next")" "$next"
ok "events --since: what is yet to come" equal "$(answer 'len(a["events"])' events --since 9000000000000000)" 0

# of_each FIELD FILE: of each whole line that was followed.
of_each() {
        python3 -c 'import json, sys
print([json.loads(line)[sys.argv[1]] for line in open(sys.argv[2]) if line.endswith("\n")])' "$@"
}
ok "events --follow --what: what comes is there" wait_while_alive "$granted" grep -q '"bytes":4194304,' "$place/grants"
ok "events --follow --what --last: from the last one on" equal "$(of_each bytes "$place/grants")" "[805306368, 4194304]"
ok "events --follow --what: nothing else" equal "$(of_each what "$place/grants")" "['granted', 'granted']"
kill -INT "$granted"
wait "$granted" || true
ok "events --what: of a kind" equal "$(answer '[e["bytes"] for e in a["events"]]' events --what granted)" \
        "[$((768 << 20)), $((4 << 20))]"
ok "events --what: of several" equal "$(answer 'sorted({e["what"] for e in a["events"]})' events --what granted --what started)" \
        "['granted', 'started']"
ok "events --last: the last ones, in their order" equal \
        "$(answer '[e["bytes"] for e in a["events"]]' events --what granted --what started --last 2)" \
        "[$((768 << 20)), $((4 << 20))]"
ok "events --pid: of a process" equal "$(answer '[(e["what"], e["bytes"]) for e in a["events"]]' events --pid "${holders[first]}")" \
        "[('connected', 0), ('granted', $((768 << 20)))]"
ok "events --pid: a table" equal "$(gpumemctl events --pid "${holders[first]}" --what granted | awk 'NR > 1 {print $7}')" "${holders[first]}"
ok "events --uid: of a user" equal "$(answer '{e["uid"] for e in a["events"]}' events --uid "$me")" "{$me}"
ok "events --uid: of another" equal "$(answer 'a["events"]' events --uid 4294967294)" "[]"
ok "events: what is wanted is all wanted at once" equal \
        "$(answer 'a["events"]' events --pid "${holders[first]}" --what granted --last 1 --uid 4294967294)" "[]"

# All may run in a container.
where=$(answer '[" in " + e["container"] if e["container"] else "" for e in a["events"] if e["what"] == "granted"][0]' events)
ok "what is too much is refused" refuse 512MiB
ok "why-oom: who asked for how much" contains "$(gpumemctl why-oom)" \
        ", uid $me$where, was refused 512.00 MiB of pool 0:"
ok "why-oom: in whose way" contains "$(gpumemctl why-oom)" \
        "the pool is full. Held by gpumem-share-demo (pid ${holders[first]}) 768.00 MiB. To do: "
ok "why-oom: how the pool is now" contains "$(gpumemctl why-oom)" \
        "now: 768.00 MiB of 1.00 GiB reserved, 768.00 MiB leased (0 B idle), 256.00 MiB can be had"
ok "why-oom: JSON" equal \
        "$(answer '[(r["reason"], r["bytes"], r["now"]["max_bytes"], r["now"]["leased_bytes"], r["now"]["room_bytes"]) for r in a["refusals"]]' why-oom)" \
        "[('pool full', $((512 << 20)), $((1 << 30)), $((768 << 20)), $((256 << 20)))]"
ok "why-oom: of another process" equal "$(gpumemctl why-oom --pid 1)" \
        "nothing was refused for lack of memory to process 1"
ok "why-oom: of both" equal "$(gpumemctl why-oom --pid 1 --uid 4294967294)" \
        "nothing was refused for lack of memory to process 1 of user 4294967294"
ok "why-oom: of another user" equal "$(answer 'a["refusals"]' why-oom --uid 4294967294)" "[]"
ok "why-oom: of this user" equal "$(answer 'len(a["refusals"])' why-oom --uid "$me")" 1
refuse 640MiB
ok "why-oom: the last one" equal "$(answer '[r["bytes"] for r in a["refusals"]]' why-oom --last 1)" "[$((640 << 20))]"
printf 'alloc device %s\nalloc device %s\nquit\n' $((400 << 20)) $((300 << 20)) | gpumem-share-demo >/dev/null 2>&1 || true
ok "why-oom: the smallest and the largest of a process's requests" contains "$(gpumemctl why-oom --last 1)" \
        "was refused 300.00 MiB to 400.00 MiB of pool 0, in "
refusals() { answer 'sum(e["times_count"] for e in a["events"])' events --what refused; }
before=$(refusals)
printf 'a 1 %s 0\nf 1\n' "$((8 << 40))" | gzip >"$place/large.trace.gz"
ok "what is larger than the device is refused" said 1 "larger than the pool may become" gpumem-replay "$place/large.trace.gz"
is_reported() { [ "$(refusals)" = "$((before + 1))" ]; }
ok "events: what the library refuses, once" wait_until 20 is_reported
ok "why-oom: what the library refuses, and whose it is" contains "$(gpumemctl why-oom --last 1)" "was refused 8.00 TiB of pool 0:"
gpumemctl limits --set client:device_bytes=16MiB >/dev/null
refuse 32MiB || true
ok "what passes a limit is refused" grep -q "^error " "$place/refused"
ok "why-oom: a limit is in the way" contains "$(gpumemctl why-oom --last 1)" "16.00 MiB"
ok "why-oom: under a limit the pool's room is not said" equal "$(gpumemctl why-oom --last 1 | grep -c "can be had")" 0
gpumemctl limits --set client:device_bytes=none >/dev/null
ok "devices: which GPU it is" equal "$(gpumemctl devices --wide | awk 'NR == 2 {print $NF}')" \
        "$(answer 'a["pools"][0]["uuid"]' devices)"
ok "devices: of pinned memory it says nothing" equal "$(answer '{pool["kind"] for pool in a["pools"]}' devices)" "{'device'}"
ok "devices: its UUID is whole" equal "$(answer 'len(a["pools"][0]["uuid"])' devices)" 40

suspend "${holders[second]}"
ok "leaks: a process that is stopped" said 1 "stopped" gpumemctl leaks --older 0
ok "leaks: a process that is stopped: JSON" equal \
        "$(answer '[(l["what"], l["pid"], l["bytes"]) for l in a["leaks"]]' leaks --older 0)" \
        "[('stopped', ${holders[second]}, $((4 << 20)))]"
ok "leaks: a process that is stopped, not as old as that" equal "$(answer 'a["leaks"]' leaks --older 1000000)" "[]"
kill -CONT "${holders[second]}"
token=$(tell second share | sed 's/^ok //')
hold third pinned 2MiB
tell third free >/dev/null
ok "another attaches what was shared" contains "$(tell third "attach pinned $token")" "ok $((4 << 20))"
ok "leaks: memory that is shared is none" equal "$(answer 'a["leaks"]' leaks --older 0)" "[]"
let_go second
ok "events --follow --pid: to its end" wait_while_alive "$fate" grep -q '"what":"ended"' "$place/fate"
kill -INT "$fate"
wait "$fate" || true
ok "events --follow --pid: of no other" equal "$(of_each pid "$place/fate" | tr -d '[],' | tr ' ' '\n' | sort -u)" \
        "$(of_each pid "$place/fate" | grep -o '[0-9]*' | head -n 1)"
wait_until 20 gpumemctl_says '[l["what"] for l in a["leaks"]]' "['shared']" leaks --older 0
ok "leaks: who shared it is gone" equal \
        "$(answer '[(l["what"], l["pid"], l["bytes"]) for l in a["leaks"]]' leaks --older 0)" \
        "[('shared', ${holders[third]}, $((4 << 20)))]"
ok "leaks: not as old as that" equal "$(answer 'a["leaks"]' leaks --older 1000000)" "[]"

# Who reclaims waits for what is held, and says whose it is.
ok "reclaim: what is held is left" said 1 \
        "pid ${holders[first]} (gpumem-share-demo), uid $me, ready: 768.00 MiB device, 0 B pinned" \
        gpumemctl reclaim --uid "$me"
ok "reclaim: what is held is left: JSON" equal \
        "$(answer '(a["left_bytes"], sorted(h["pid"] for h in a["holders"]))' reclaim --uid "$me")" \
        "($((772 << 20)), [$(printf '%s\n' "${holders[first]}" "${holders[third]}" | sort -n | paste -sd, | sed 's/,/, /')])"
ok "reclaim: another user has nothing" said 0 "no tenant of uid 4294967294: gpumemctl tenants lists" \
        gpumemctl reclaim --uid 4294967294
ok "reclaim: a container that there is not" said 0 'no tenant in container "job_4711": gpumemctl tenants lists' \
        gpumemctl reclaim --cgroup job_4711
reclaims='sum(e["times_count"] for e in a["events"] if e["what"] == "freed all")'
before=$(answer "$reclaims" events)
gpumemctl reclaim --uid "$me" --wait 60 >"$place/reclaimed" 2>&1 &
reclaimer=$!
wait_until 20 gpumemctl_says "$reclaims > $before" True events
let_go first third
status=0
wait "$reclaimer" || status=$?
freed_all() { answer '{e["what"] for e in a["events"]}' events --what "$1"; }
ok "events --what: a word with a space" equal "$(freed_all "freed all") $(freed_all freed-all)" "{'freed all'} {'freed all'}"
ok "reclaim --wait: until nothing is left" equal "$status $(sed 's/.*; //' "$place/reclaimed")" "0 nothing is left"

# What is held stays.
hold holder device 64MiB
hold other pinned 4MiB
ok "free-all: what a process holds is said" said 0 \
        "gpumem-share-demo (process ${holders[holder]}, uid $me) holds 64.00 MiB in its leases" gpumemctl free-all
ok "free-all: of one pool" equal "$(answer '[(s["what"], s["pid"], s["allocated_bytes"]) for s in a["stays"]]' free-all --pool 0)" \
        "[('held', ${holders[holder]}, None)]"
let_go holder other
wait_until 20 nothing_charged

# What was cached goes back.
printf 'a 1 33554432 0\nf 1\n' | gzip >"$place/one.trace.gz"
gpumem-replay --name cached "$place/one.trace.gz" >/dev/null
wait_until 20 nothing_charged
cached=$(figure cached_bytes)
ok "there is something cached" [ "$cached" -ge $((32 << 20)) ]
ok "reclaim: what is cached goes back" equal "$(answer 'a["freed_bytes"]' reclaim --uid "$me")" "$cached"
ok "reclaim: it is gone" equal "$(figure reserved_bytes)" 0

# What others hold of a user's, and are charged for, is theirs.
if [ "$me" -eq 0 ]; then
        chmod 0711 "$place"
        chmod 0666 "$GPUMEM_SOCKET"
        hold fourth pinned 4MiB
        token=$(tell fourth "share 4711" | sed 's/^ok //')
        hold fifth pinned 2MiB --without-cuda --uid 4711
        tell fifth free >/dev/null
        tell fifth "attach pinned $token" >/dev/null
        ok "reclaim: who has shared it is charged" said 1 "pid ${holders[fourth]} " gpumemctl reclaim --uid 0
        let_go fourth
        ok "reclaim: what others are charged for is not left" said 0 "4.00 MiB are shared with other tenants, which are charged for it" \
                gpumemctl reclaim --uid 0 --wait 60
        ok "reclaim: what others are charged for is not left: JSON" equal \
                "$(answer '(a["left_bytes"], a["charged_bytes"], a["shared_bytes"], a["holders"])' reclaim --uid 0)" \
                "(0, 0, $((4 << 20)), [])"
        ok "reclaim: who is charged for what another made" said 1 "pid ${holders[fifth]} " \
                gpumemctl reclaim --uid 4711
        let_go fifth
        wait_until 20 nothing_charged
else
        skip "reclaim: what others are charged for is not left" "needs root"
fi

stop_daemon
status=0
wait "$other" || status=$?
ok "events --follow: the daemon's end ends it" equal "$status" 3
ok "events --follow: and it says so" contains "$(cat "$place/follow.said")" "gpumemctl: events: "

# Where tenants are users, no container is anybody's.
echo '{"tenants": "uid"}' >"$place/users.conf"
start_daemon --canary off --config "$place/users.conf"
ok "reclaim: a container where tenants are users" said 4 \
        "this gpumemd does not tell tenants apart by container (expected a uid)" gpumemctl reclaim --cgroup job_1
ok "reclaim: a user in a container there" said 4 "(expected a uid)" gpumemctl reclaim --uid "$me" --cgroup job_1
ok "reclaim: a user there" said 0 "went back to the driver" gpumemctl reclaim --uid "$me"
stop_daemon
done_testing
