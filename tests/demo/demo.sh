#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh BUILD: the main job as a story. Two programs replay real PyTorch allocation traces through
# one gpumemd, at once, and check every byte they wrote. The GPUs are two emulated ones; with
# GPUMEM_CUDA_LIBRARY=libcuda.so.1 they are the machine's, two at most.
# Exit status 0: every check held.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../daemon.sh"

failed=0
declare -A pids

say() {
        printf '\n%s\n' "$*"
}

# check TEXT COMMAND...: says whether it held.
check() {
        local text=$1
        shift
        if "$@"; then
                printf '  ok      %s\n' "$text"
        else
                printf '  FAILED  %s\n' "$text"
                failed=$((failed + 1))
        fi
}

equal() {
        [ "$1" = "$2" ] || { echo "          $1 is not $2" >&2; return 1; }
}

make_place 2 8GiB

say "1. gpumemd starts. Of each of these GPUs it may take $((6 / n_devices)) GiB:"
gpumem-replay --list-devices | sed 's/^/   /'
start_daemon --device-bytes $((6 / n_devices))GiB --pinned-bytes 1408MiB
do_first_work
gpumemctl stats
fds_before=$(quiet_fds)
driver_before=$(driver_count)

# The whole of the second trace takes most of a minute; its memory grows to gigabytes by then.
zcat "$source_folder/bench/traces/kv_decode.trace.gz" | awk 'NR <= 24000' | gzip -1 >"$place/kv_decode.trace.gz"
cp "$source_folder/bench/traces/diffusion.trace.gz" "$place"

say "2. Two programs start: an image generator and a language model's server, as PyTorch ran them;"
echo "   of the second one its first 24,000 steps. Every eighth allocation is pinned; each is filled"
echo "   with a pattern of its own and checked."
for name in diffusion kv_decode; do
        gpumem-replay --name "$name" --devices "$n_devices" --pinned-every 8 --meeting "$place/meeting" \
                "$place/$name.trace.gz" >"$place/$name.out" 2>&1 &
        pids[$name]=$!
done
both_half_way() {
        local name
        for name in diffusion kv_decode; do
                wait_while_alive "${pids[$name]}" [ -e "$place/meeting.$name" ] || return 1
        done
}
check "both are half-way" both_half_way

say "3. Half-way, both hold memory:"
gpumemctl stats
# Pinned memory that was given back stays registered, and is charged to who keeps it.
kept_bytes() {
        gpumemctl clients --json | sed -n 's/^ *"pinned_kept_bytes": \([0-9]*\),*$/\1/p' | add_up
}
# Asked one after the other, while both may be giving back what they do not use.
leased_and_kept_is_charged() {
        equal "$(($(figure leased_bytes) + $(kept_bytes)))" "$(figure charged_bytes)"
}
check "leased and kept is what clients are charged" wait_until 20 leased_and_kept_is_charged
check "the driver counts more than at the start" \
        [ "$(driver_count | add_up)" -gt "$(add_up <<<"$driver_before")" ]
touch "$place/meeting.go"

say "4. They go on to the end:"
for name in diffusion kv_decode; do
        status=0
        wait "${pids[$name]}" || status=$?
        sed 's/^/   /' "$place/$name.out"
        check "$name found every byte as it had written it" [ "$status" -eq 0 ]
done

say "5. Both are gone. What they gave back is cached, ready for the next program:"
check "no client is charged anything" wait_until 20 nothing_charged
gpumemctl stats

say "6. Memory that processes share. A writer allocates 32 MiB on a GPU, writes it and asks for a token:"
# tell NAME LINE: to one of the three; prints its answer.
tell() {
        local to=${1}_in from=${1}_out line
        echo "$2" >&"${!to}"
        read -r -t 30 line <&"${!from}" || line="no answer"
        echo "$line"
}
# start_sharer NAME OPTION...: a process that takes orders from `tell`.
start_sharer() {
        local name=$1
        shift
        mkfifo "$place/$name.in" "$place/$name.out"
        gpumem-share-demo "$@" <"$place/$name.in" >"$place/$name.out" &
        pids[$name]=$!
        eval "exec {${name}_in}>\"$place/$name.in\" {${name}_out}<\"$place/$name.out\""
}
end_sharer() {
        [ "$(tell "$1" quit)" = ok ] && wait "${pids[$1]}"
}
for name in writer reader late; do
        start_sharer "$name"
done
check "the writer has its memory" equal "$(tell writer "alloc device 33554432")" ok
check "and writes it" equal "$(tell writer "fill 1")" ok
token=$(tell writer share)
token=${token#ok }
echo "   $token"
check "a reader attaches it" equal "$(tell reader "attach device $token")" "ok 33554432"
check "it finds the writer's bytes, none wrong" equal "$(tell reader "check 1")" "ok 0"
check "the writer changes them all" equal "$(tell writer "fill 2")" ok
check "the reader sees it without being told" equal "$(tell reader "check 2")" "ok 0"
check "a guessed token attaches nothing" \
        equal "$(tell late "attach device 00000000000000000000000000000000" | cut -c1-8)" "error 30"
check "one memory is held and charged once" equal "$(figure charged_bytes)" 33554432
# The shell would report that the process was killed.
{
        kill -KILL "${pids[writer]}"
        wait "${pids[writer]}" || true
} 2>/dev/null
echo "   The writer is killed. Its memory lives as long as a process holds it:"
check "a third process attaches it after its maker's death" \
        equal "$(tell late "attach device $token")" "ok 33554432"
check "and finds the last that the writer wrote" equal "$(tell late "check 2")" "ok 0"
check "the reader detaches" equal "$(tell reader detach)" ok
check "for the third nothing changes" equal "$(tell late "check 2")" "ok 0"
gpumemctl stats
for name in reader late; do
        check "the ${name/late/third} process ends in order" end_sharer "$name"
done
check "with the last of them the memory is gone" wait_until 20 nothing_charged

say "7. free-all gives what is cached to the driver:"
gpumemctl free-all
gpumemctl stats
check "nothing is cached" equal "$(figure cached_bytes)" 0
check "nothing is reserved" equal "$(figure reserved_bytes)" 0
check "the driver's own count is what it was at the start, to within $(tolerance) MiB" \
        driver_comes_back "$driver_before"
check "gpumemd has as many open files as at the start ($fds_before)" wait_until 10 same_fds

status=0
stop_daemon || status=$?
check "gpumemd ends in order" [ "$status" -eq 0 ]
check "gpumemd had nothing to complain of" equal "$(complaints)" ""

if [ "$failed" -gt 0 ]; then
        say "$failed checks failed."
        exit 1
fi
say "Every check held."
