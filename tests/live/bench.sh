#!/bin/bash
# bench.sh BUILD: that gpumem-bench runs, what it says and how it exits; not what it finds.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=tests/daemon.sh
. "$source_folder/tests/daemon.sh"
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"

make_place 1 16GiB
PATH=$build/bench:$PATH

# said STATUS PART COMMAND...: the command exits so and says so.
said() {
        local wanted=$1 part=$2 status=0 output
        shift 2
        output=$("$@" 2>&1) || status=$?
        equal "$status" "$wanted" && contains "$output" "$part"
}

fits_a_screen() {
        [ "$("$@" | wc -l)" -le 40 ] && [ "$("$@" | awk '{ if (length > n) n = length } END { print n }')" -le 100 ]
}

ok "--help fits a screen" fits_a_screen gpumem-bench --help
ok "--help names the commands" said 0 "  metadata  " gpumem-bench --help
ok "--version" said 0 "gpumem-bench 0." gpumem-bench --version
ok "no command" said 2 "a command is needed" gpumem-bench
ok "an unknown command" said 2 'no command "dance"' gpumem-bench dance
ok "an unknown option" said 2 "see gpumem-bench --help" gpumem-bench --nonsense
ok "a file too many" said 2 "metadata takes no files" gpumem-bench metadata file
ok "no daemon" said 3 "no connection to gpumemd" gpumem-bench metadata

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
keys = {'name', 'value', 'unit', 'baseline', 'ratio', 'bound', 'pass'}
sys.exit(not rows or any(set(row) != keys for row in rows))
END
}

start_daemon
ok "metadata --json" measures gpumem-bench metadata --quick --json
ok "it is JSON, with every key" has_keys "$place/said"
ok "metadata --output" measures gpumem-bench metadata --quick --output "$place/bench.json"
ok "the file is the same" has_keys "$place/bench.json"
ok "the table has the row" grep -q "^metadata " "$place/said"
ok "threads" measures gpumem-bench threads --quick
stop_daemon
done_testing
