#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# examples.sh BUILD: what the manuals' examples say is done, each block of commands in a shell of its own, and
# each command succeeds. Programs are compiled without a warning. And the columns of gpumemctl's tables are those of
# its page.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../daemon.sh"

make_place 1 1GiB

# examples_of FILE FOLDER: the commands of each block, in a file of its own.
examples_of() {
        mkdir -p "$2"
        awk -v folder="$2" '
                /^```/ { inside = !inside; n += inside }
                inside && /^\$ / { print substr($0, 3) > sprintf("%s/%02d", folder, n) }' \
                <(sed "s|@libdir@/gpumemd|$build/driver/emulator|g; s|@datadir@/gpumem-bench|$place/data|g" "$1")
}

# on_terminal COMMAND: whose user types q until it ends.
on_terminal() {
        (
                trap '' PIPE
                while printf q 2>/dev/null; do sleep 0.1; done
        ) | TERM=xterm script --quiet --return --command "$1" /dev/null
}

# A program of a page is compiled as the page says, and strictly. gpumem.h and the library are the build's, and the driver that it
# links is the one that the daemon loads.
strict_cc() {
        cc -Wall -Wextra -Werror "$@"
}

strict_cxx() {
        c++ -Wall -Wextra -Werror "$@"
}

prepare_programs() {
        cp "$source_folder/man/examples/"*.c "$source_folder/man/examples/"*.cc "$place"
        mkdir "$place/lib"
        ln -s "$GPUMEM_CUDA_LIBRARY" "$place/lib/libcuda.so"
        export PKG_CONFIG_PATH=$build/meson-uninstalled LIBRARY_PATH=$place/lib
        export LD_LIBRARY_PATH=$build/client:$build/driver/emulator
        export CPATH=${CUDA_HOME:-/usr/local/cuda}/include
}

# run_example FILE: in a folder with the example of a configuration. What it starts ends with it.
run_example() (
        cd "$place"
        cp "$source_folder/docs/gpumemd.conf.example" gpumemd.conf
        export XDG_RUNTIME_DIR=$place/runtime
        mkdir -p "$XDG_RUNTIME_DIR"
        {
                declare -f on_terminal strict_cc strict_cxx
                sed 's/^gpumemctl top.*/on_terminal "&"/; s/^cc /strict_&/; s/^c++ /strict_cxx /' "$1"
                echo 'wait'
        } >script
        timeout 60 bash -eux script
)

run_examples_of() {
        local folder=$place/examples-$1 file n=0
        examples_of "$source_folder/man/$1.md" "$folder"
        for file in "$folder"/*; do
                [ -e "$file" ] || continue
                n=$((n + 1))
                ok "$1, example $n: $(head -n 1 "$file")" run_example "$file"
        done
        ok "$1 has examples" [ "$n" -gt 0 ]
}

# columns_are_told COMMAND [--wide]: the headings of its table are in its part of the page, before all parts, or in those of stats.
columns_are_told() {
        local headings heading
        {
                sed -n "/^## Commands/,/^###/p; /^### $1\$/,/^##/p" "$source_folder/man/gpumemctl.1.md"
                sed -n '/^## Columns of gpumemctl stats/,/^## /p' "$source_folder/docs/concepts.md"
        } >"$place/part"
        headings=$(gpumemctl "$@" | sed -n '1 { s/DEV-\|PIN-\|://g; p }')
        [ -n "$headings" ] || return 1
        for heading in $headings; do
                grep -qw -e "$heading" "$place/part" || { echo "$heading is not told"; return 1; }
        done
}

# What an installation has below one folder.
mkdir "$place/data"
ln -s "$source_folder/bench/traces" "$source_folder/bench" "$place/data"
PATH=$build/bench:$PATH
run_examples_of gpumemd.8
run_examples_of gpumem-bench.1
start_daemon
run_examples_of gpumemctl.1
prepare_programs
for page in gpumem gpumem-connect gpumem-allocate gpumem-streams gpumem-capture gpumem-registered gpumem-share \
        gpumem-statistics gpumem-events gpumem-adapters gpumem-cpp; do
        run_examples_of "$page.3"
done
for command in events leaks limits; do
        ok "gpumemctl.1 has the columns of $command" columns_are_told $command
done
ok "gpumemctl.1 has the columns of watch" columns_are_told watch --count 1
for command in stats devices clients blocks tenants; do
        ok "gpumemctl.1 has the columns of $command" columns_are_told $command --wide
done
stop_daemon
done_testing
