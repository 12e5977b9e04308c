#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# TAP for scripts to source: one case a call of `ok`, `done_testing` at the end.

n_cases=0
n_failed=0

# ok NAME COMMAND...: a case that holds if the command succeeds. What the command prints is shown
# when it does not.
ok() {
        local name=$1 output
        shift
        n_cases=$((n_cases + 1))
        if output=$("$@" 2>&1); then
                echo "ok $n_cases - $name"
        else
                n_failed=$((n_failed + 1))
                echo "not ok $n_cases - $name"
                printf '%s\n' "# $*" "$output" | sed 's/^/# /'
        fi
}

# skip NAME REASON: a case that cannot be tried here.
skip() {
        n_cases=$((n_cases + 1))
        echo "ok $n_cases - $1 # SKIP $2"
}

equal() {
        [ "$1" = "$2" ] || { echo "$1 is not $2"; return 1; }
}

# contains TEXT PART
contains() {
        [[ "$1" == *"$2"* ]] || { echo "no \"$2\" in: $1"; return 1; }
}

# said STATUS PART COMMAND...: the command exits so and says so.
said() {
        local wanted=$1 part=$2 status=0 output
        shift 2
        output=$("$@" 2>&1) || status=$?
        equal "$status" "$wanted" && contains "$output" "$part"
}

# fits_a_screen COMMAND...: what it says has 24 lines of 80 columns at most.
fits_a_screen() {
        local lines
        lines=$("$@" | wc -l)
        [ "$lines" -le 24 ] || { echo "$lines lines"; return 1; }
        [ "$("$@" | awk '{ if (length > n) n = length } END { print n }')" -le 80 ]
}

# says_first PART COMMAND...: each line of what it says begins so; it says something, and fails.
says_first() {
        local part=$1 line output
        shift
        ! output=$("$@" 2>&1) || return 1
        while IFS= read -r line; do
                [[ "$line" == "$part"* ]] || { echo "$line"; return 1; }
        done <<<"$output"
}

done_testing() {
        echo "1..$n_cases"
        [ "$n_failed" -eq 0 ]
}
