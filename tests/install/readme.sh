#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# readme.sh BUILD: the library as it is installed. The program of the README is compiled and run
# against it as the README says, and says what the README says.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../daemon.sh"

make_place 1 1GiB
root=$place/root

# Only what was installed is found: not the build, not another version on this machine.
point_at_root() {
        local pc
        pc=$(find "$root" -name gpumem-client.pc)
        [ -n "$pc" ] || { echo "no gpumem-client.pc"; return 1; }
        export PKG_CONFIG_LIBDIR=${pc%/*} PKG_CONFIG_PATH='' PKG_CONFIG_SYSROOT_DIR=$root
        libdir=$root$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --variable=libdir gpumem-client)
        includedir=$root$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --variable=includedir gpumem-client)
        bindir=$root$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --variable=prefix gpumem-client)/bin
        export LD_LIBRARY_PATH=$libdir PATH=$bindir:$PATH
}

# The README's first block that begins with ```c, and the lines of the block of commands after it.
example_source() {
        awk '/^```c$/ { on = 1; next } /^```$/ && on { exit } on' "$source_folder/README.md"
}

example_session() {
        awk '/^```c$/ { seen = 1; next } /^```$/ && seen { n++; next } n == 2' "$source_folder/README.md"
}

# Runs the session's commands in order, and prints what a reader would see.
replay_session() {
        local command
        cd "$place"
        while IFS= read -r command; do
                echo "\$ $command"
                bash -c "$command" 2>&1 || return 1
        done < <(example_session | sed -n 's/^\$ //p')
}

same_session() {
        diff <(example_session) <(replay_session)
}

# As a user of that system would have them.
pages_are_there() {
        local mandir page
        mandir=$(find "$root" -type d -name man)
        for page in gpumemd gpumemctl gpumem-bench gpumemd.conf gpumem gpumem-connect gpumem-allocate gpumem-streams \
                gpumem-capture gpumem-registered gpumem-share gpumem-statistics gpumem-events gpumem-adapters gpumem-cpp \
                gpumem-protocol gpumem_alloc gpumem_flush gpumem_torch_alloc; do
                MANPATH=$mandir man -w "$page" || return 1
        done
        MANPATH=$mandir MANPAGER=cat man gpumem_alloc | grep -q "allocate and free device memory" ||
                { echo "gpumem_alloc(3) does not lead to gpumem-allocate(3)"; return 1; }
}

cxx=
for name in g++ clang++; do
        [ -n "$cxx" ] || ! command -v "$name" >/dev/null || cxx=$name
done

header_alone() {
        echo "#include <${header:-gpumem.h}>" >"$place/header.$1"
        shift
        "$@" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$includedir" "$place/header."*
        rm "$place/header."*
}

ok "it installs" meson install -C "$build" --no-rebuild --quiet --destdir "$root"
point_at_root
ok "the programs are there" [ -x "$bindir/gpumemd" -a -x "$bindir/gpumemctl" ]
ok "the library bears its major version" [ -e "$libdir/libgpumem-client.so.0" ]
ok "the example of a configuration is where --help says" \
        [ -e "$root$("$bindir/gpumemd" --help | sed -n 's/^ *\(\/.*gpumemd.conf.example\)$/\1/p')" ]
ok "what shells complete is there" \
        grep -q 'complete .*-F .* gpumemctl$' "${bindir%/*}/share/bash-completion/completions/gpumemctl"
ok "for zsh, too" grep -q '^#compdef gpumemctl$' "${bindir%/*}/share/zsh/site-functions/_gpumemctl"
ok "each page of the manual is there" pages_are_there
ok "the emulated driver and its NVML are where the manual says" \
        [ -e "$libdir/gpumemd/libcuda-emu.so" -a -e "$libdir/gpumemd/libnvml-emu.so" ]
ok "gpumem-bench finds the traces beside it" \
        "$bindir/gpumem-bench" trace "${bindir%/*}/share/gpumem-bench/traces/diffusion.trace.gz"
ok "the list of errors is there" [ -e "$includedir/gpumem-errors.def" ]
ok "the header stands alone in C11" header_alone c cc -std=c11
ok "the header stands alone in C++98" header_alone cc "$cxx" -std=c++98
ok "the header stands alone in C++20" header_alone cc "$cxx" -std=c++20
for header in gpumem.hpp gpumem-resources.hpp; do
        ok "$header stands alone in C++17" header_alone cc "$cxx" -std=c++17
        ok "$header stands alone in C++20" header_alone cc "$cxx" -std=c++20
done

example_source >"$place/example.c"
ok "the README has a program" grep -q gpumem_malloc_pinned "$place/example.c"
start_daemon
ok "the daemon is the installed one" equal "$(readlink "/proc/$daemon/exe")" "$bindir/gpumemd"
ok "the README's session is as it says" same_session
ok "the program wants the library by its major version" \
        sh -c "objdump -p '$place/example' | grep -q 'NEEDED *libgpumem-client.so.0'"
ok "nothing stays charged" wait_until 20 nothing_charged
status=0
stop_daemon || status=$?
ok "the daemon ends in order" equal "$status" 0
ok "without a daemon it says so, and at which socket" contains "$("$place/example" 2>&1)" \
        "the daemon cannot be reached: $GPUMEM_SOCKET: "
done_testing
