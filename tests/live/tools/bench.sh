#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh BUILD: that gpumem-bench runs, what it says and how it exits; not what it finds.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"

# Sparse; room for what two programs of 16 threads hold at once, beside what one left cached.
make_place 1 256GiB
PATH=$build/bench:$PATH

ok "--help fits a screen" fits_a_screen gpumem-bench --help
ok "--help names the commands" said 0 "  metadata  " gpumem-bench --help
ok "--version" said 0 "gpumem-bench 0." gpumem-bench --version
ok "no command" said 2 "needs a command; see gpumem-bench --help" gpumem-bench
ok "an unknown command" said 2 'unknown command "dance"' gpumem-bench dance
ok "an unknown option" said 2 "see gpumem-bench --help" gpumem-bench --nonsense
ok "an unknown option: by whom, however it was called" says_first "gpumem-bench: " "$(type -P gpumem-bench)" --nonsense
ok "a file too many" said 2 "metadata takes no files" gpumem-bench metadata file
ok "no file" said 2 "trace takes one file, a trace" gpumem-bench trace
ok "a file too few" said 2 "node takes 2 to 64 files, which are traces" gpumem-bench node file
ok "half a stream" said 2 'invalid --streams "1.5" (expected a whole number)' gpumem-bench trace --streams 1.5 file
ok "no seed" said 2 'invalid --seed "0" (expected 1 to 999999)' gpumem-bench patterns --seed 0
ok "no daemon" said 3 "no connection to gpumemd" gpumem-bench metadata

# refused LINES WHAT: the message is about the last of these lines, and is the only one.
refused() {
        local n
        printf "%b" "$1" >"$place/trace"
        n=$(grep -c "" "$place/trace")
        said 3 "$place/trace:$n: $2" gpumem-bench trace "$place/trace" &&
                equal "$(gpumem-bench trace "$place/trace" 2>/dev/null)" ""
}

form='invalid line (expected "a ID BYTES STREAM" or "f ID")'
ok "an allocation without a stream" refused 'a 1 100\n' "$form"
ok "a negative size" refused 'a 1 -5 0\n' "$form"
ok "a size beyond 64 bits" refused 'a 1 99999999999999999999 0\n' "$form"
ok "an id beyond what is taken" refused 'a 100000000 100 0\n' "$form"
ok "words behind a line" refused '# so\na 1 100 0\nf 1 x\n' "$form"
ok "no text" refused '\0001\0377\n' "$form"
ok "an empty allocation" refused 'a 1 0 0\n' "an allocation of 0 bytes"
ok "an id twice" refused 'a 1 9 0\na 1 9 0\n' "an allocation with an id in use"
ok "a free of nothing" refused 'a 1 9 0\nf 1\nf 1\n' "a free of an unknown id"
printf '# nothing\n' >"$place/trace"
ok "no time" said 2 'invalid --seconds "x" (expected 1 to 1000000)' gpumem-bench hot --seconds x
ok "an empty trace" said 3 "no allocations in the trace" gpumem-bench trace "$place/trace"
printf 'a 1 400000000000000 0\n' >"$place/trace"
ok "more than there is" said 3 "more than a device has" gpumem-bench trace "$place/trace"
ok "no such trace" said 3 "$place/none: No such file" gpumem-bench trace "$place/none"
ok "a folder" said 3 "$place: Is a directory" gpumem-bench trace "$place"
head -c 3000 "$source_folder/bench/traces/diffusion.trace.gz" >"$place/cut.gz"
ok "half a trace" said 3 "unexpected end of file" gpumem-bench trace "$place/cut.gz"
printf 'a 1 100 0\r\nf 1' >"$place/trace"
ok "lines as they end elsewhere, or not at all" said 1 "peak_live              100 B" \
        gpumem-bench trace "$place/trace"

# exact FILE: sizes are whole bytes there.
exact() {
        { gpumem-bench trace --json "$1" || [ $? -eq 1 ]; } | python3 -c '
import json, sys
rows = {row["name"]: row["value"] for row in json.load(sys.stdin)}
sys.exit(rows["peak_live"] != 1234567891 or rows["peak_reserved"] % (2 << 20) != 0)'
}
# reserved_bytes OPTION...: what the trace holds at most, while all work lasts beyond its end.
reserved_bytes() {
        { gpumem-bench trace --json --lag 1000 "$@" "$place/trace" || [ $? -eq 1 ]; } | python3 -c '
import json, sys
print(next(int(row["value"]) for row in json.load(sys.stdin) if row["name"] == "peak_reserved"))'
}
printf 'a 1 1000000 4294967295\nf 1\na 2 1000000 7\nf 2\na 1 1000000 4294967295\n' >"$place/trace"
ok "a trace's own streams" equal "$(reserved_bytes)" $((2 * $(reserved_bytes --streams 1)))

printf 'a 1 1234567891 0\n' >"$place/trace"
ok "JSON has all digits" exact "$place/trace"

# leases COUNT ARGUMENT...: so many.
leases() {
        local wanted=$1
        shift
        equal "$({ gpumem-bench trace "$@" || [ $? -eq 1 ]; } | awk '$1 == "leases" { print $2 }')" "$wanted"
}
printf 'a 1 30000000 0\nf 1\na 2 60000000 0\n' >"$place/trace"
ok "a block is leased as what is missing to those before" leases 5 "$place/trace"
ok "pinned memory is in blocks of one piece" leases 2 --pinned "$place/trace"

for i in 1 2 3 4 5 6; do echo "a $i 30000000 0"; done >"$place/many"
ok "more leases than slots" said 3 "more slots than its board has" gpumem-bench trace --pinned --slots 5 "$place/many"
ok "as many" leases 6 --pinned --slots 6 "$place/many"
ok "more slots than there are" said 2 'invalid --slots "16385"' gpumem-bench trace --slots 16385 "$place/many"

# A figure may miss its bound in a build for tests; the others are failures.
measures() {
        local status=0
        "$@" >"$place/said" 2>&1 || status=$?
        [ "$status" -le 1 ] || { cat "$place/said"; return 1; }
}

has_keys() {
        python3 - "$1" <<'END'
import json, sys
rows = json.load(open(sys.argv[1]))
keys = {'name', 'value', 'unit', 'baseline', 'ratio', 'bound', 'pass', 'note'}
sys.exit(not rows or any(set(row) != keys for row in rows))
END
}

ok "an unknown comparison, and which ones there are" said 2 \
        'invalid --only "dance" (expected block, node, first, hot, random)' gpumem-bench peers --only dance
printf '{"name": 1}' >"$place/odd.json"
ok "a picture of what is no table" said 3 "not an array of rows" gpumem-bench plot "$place/odd.json"
printf '[1, {"name": 1}, {"name": "hot_beside_x", "unit": "ns", "value": null, "baseline": 1}]' \
        >"$place/odd.json"
ok "a picture of nothing" said 3 "the files have no row that plot draws" gpumem-bench plot "$place/odd.json"
printf '[{"name": "hot_beside_<&>", "unit": "ns", "value": 1, "baseline": 2.5}]' >"$place/odd.json"
ok "names are no markup" said 0 "&lt;&amp;&gt;</text>" gpumem-bench plot "$place/odd.json"
ok "figures of a picture" said 2 "plot takes neither --output nor --json" \
        gpumem-bench plot --output "$place/odd.json" "$place/odd.json"
ok "the file is as it was" grep -q "hot_beside_" "$place/odd.json"
ok "figures of a picture: JSON" said 2 "plot takes neither" gpumem-bench plot --json "$place/odd.json"
ok "a picture of no file" said 3 "gpumem-bench: unable to open $place/none: No such file" \
        gpumem-bench plot "$place/none"
start_daemon
ok "metadata --json" measures gpumem-bench metadata --quick --json
ok "it is JSON, with every key" has_keys "$place/said"
ok "metadata --output" measures gpumem-bench metadata --quick --output "$place/bench.json"
ok "the file is the same" has_keys "$place/bench.json"
ok "the table has the row" grep -q "^metadata " "$place/said"
ok "threads" measures gpumem-bench threads --quick
ok "paced" measures gpumem-bench paced --quick
ok "with pauses" grep -q "^paced_100us_median " "$place/said"
ok "and a loop" grep -q "^loop_misses " "$place/said"
ok "idle" measures gpumem-bench idle --quick
ok "another's idle blocks" grep -q "^idle_stopped " "$place/said"
ok "from the end of work" grep -q "^idle_latency " "$place/said"
ok "capture --json" measures gpumem-bench capture --quick --json
ok "it is JSON, with every key" has_keys "$place/said"

ok "a trace through the library" measures gpumem-bench trace --real --streams 3 --line 1 "$place/trace"
ok "beside the replay" grep -q "^real_pinned_over_live " "$place/said"

# Rivals that are not on this machine, or are made up.
peers() {
        measures env PYTHONPATH="$source_folder/tests/live/tools/fakes" PYTHONDONTWRITEBYTECODE=1 \
                gpumem-bench peers --quick --peers "$source_folder/bench/peers" --output "$place/peers.json" \
                --only "$@"
}

# row NAME PATTERN: the table's row says so.
row() {
        grep "^$1 " "$place/said" | grep -E -- "$2"
}

trace=$source_folder/bench/traces/diffusion.trace.gz
# There is no pinned memory for `pinned` here. A sanitizer's runtime refuses to be loaded after a rival's library.
all_but_peers_and_plot() {
        local status=0 left_out="pinned"
        gpumem-bench all --quick "$trace" >"$place/said" 2>&1 || status=$?
        ! grep -q "runtime does not come first" "$place/said" || left_out="$left_out\|hot\|cold\|random\|growth"
        equal "$(grep "measurement failed" "$place/said" | grep -v "$left_out\|^gpumem-bench: all:")" "" &&
                ! grep -q "^gpumem-bench: \(peers\|plot\)" "$place/said" && grep -q "^node_hit_rate\|^hit_rate_" "$place/said"
}
ok "all, with a trace" all_but_peers_and_plot
ok "peers: hot" peers hot
ok "the driver's" row hot_beside_cuMemAlloc ' [0-9.]+ [um]s'
ok "what the driver does not have" row hot_beside_cuMemAllocAsync "the driver has no cuMemAllocAsync"
ok "one in Python" row hot_beside_cupy ' [0-9.]+ [nu]s'
ok "one that does not compile" row hot_beside_torch_cpp "it could not be compiled"
ok "by a handle" row hot_handle_beside_torch_cpp "it could not be compiled"
ok "eight threads" row threads_8_beside_cuMemAlloc /us
ok "it is drawn" said 0 "</svg>" gpumem-bench plot "$place/peers.json"
ok "peers: random" peers random
ok "random sizes" row random_beside_cupy ' [0-9.]+ [nu]s'
ok "peers: node" peers node "$trace" "$trace"
ok "four processes" row node_4_processes "<= 1.1"
ok "the traces were played there, all of them" row node_4_processes_beside_torch_expandable " 2(\.[0-9]+)? "
ok "peers: block" peers block
ok "a block through the library" row alloc_20MiB_beside_cuMemAlloc ' [0-9.]+ [um]s'
ok "4 GiB given back" row back_4GiB_beside_cupy ' [0-9.]+ [um]s'
ok "a block that is mapped still" row known_8GiB_beside_cuMemAlloc "<= 0.2"
ok "beside its messages alone" row known_2MiB_beside_echo ' [0-9.]+ us'
export FAKE_CUPY_HANGS=1
ok "peers: first, and one that hangs" peers first --seconds 15
ok "it takes its own row" row first_block_beside_cupy "it took too long"
ok "others have theirs" row first_block_beside_torch ' [0-9.]+ [num]s'
ok "from the start" row start_beside_torch ms
unset FAKE_CUPY_HANGS
ok "no folder of theirs" said 0 "left out without --peers DIR" gpumem-bench peers --quick --only first
stop_daemon
done_testing
