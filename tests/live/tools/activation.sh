#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# activation.sh BUILD: gpumemd with sockets that systemd has opened, in systemd's place.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"

# Once more, with the sockets.
if [ "${2-}" != "with sockets" ]; then
        make_place 1 256MiB
        export place
        python3 "$source_folder/tests/live/tools/passed.py" "$place" bash "$0" "$build" "with sockets"
        exit
fi
trap 'kill -KILL $(jobs -p) 2>/dev/null || true' EXIT

# passed NAMES FDS OPTION...: becomes gpumemd, with these of our fds.
passed() {
        local names=$1 fd n=0
        for fd in $2; do
                eval "exec $((n + 3))<&$fd"
                n=$((n + 1))
        done
        shift 2
        exec 10<&- 11<&- 12<&- 13<&- 14<&- 15<&- 16<&-
        LISTEN_PID=${listen_pid-$BASHPID} LISTEN_FDS=${listen_fds-$n} LISTEN_FDNAMES=$names \
                exec gpumemd --config "$place/empty.conf" --log info "$@"
}

# listen_with NAMES FDS OPTION...: in the background.
listen_with() {
        (passed "$@" 2>>"$place/gpumemd.log") &
        daemon=$!
}

# refuses WHAT NAMES FDS: that is no set of sockets to start with.
refuses() {
        local what=$1 said status=0
        said=$( (passed "$2" "$3") 2>&1) || status=$?
        equal "$status" 2 && contains "$said" "$what"
}

# Connections to the clients' socket, and itself.
sockets_there() {
        [ "$(grep -c " $place/gpumemd.sock\$" /proc/net/unix)" -eq "$1" ]
}

serves() {
        gpumemctl --wait 10 stats
}

is_closed_on_exec() {
        local flags
        flags=$(sed -n 's/^flags:[[:space:]]*//p' "/proc/$daemon/fdinfo/$1")
        [ $((flags & 02000000)) -ne 0 ] || { echo "$flags"; return 1; }
}

has_no_lock() {
        [ ! -e "$place/gpumemd.sock.lock" ]
}

# Of these two the exit status is in `status`.
end() {
        status=0
        stop_daemon || status=$?
}

go_on() {
        status=0
        wait "$early" || status=$?
}

# How many may connect while gpumemd stands still: the others' connect() would wait.
queue_in_front() {
        kill -STOP "$daemon"
        python3 -c '
import socket, sys
many = []
try:
    while True:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.setblocking(False)
        one.connect(sys.argv[1])
        many.append(one)
except BlockingIOError:
    print(len(many))' "$place/gpumemd.sock"
        kill -CONT "$daemon"
}

# A program that allocates, before there is anybody to ask.
come_early() {
        gpumem-replay --name early "$place/early.trace.gz" >/dev/null 2>&1 &
        early=$!
}

printf 'a %d 4096 0\n' {0..9} | gzip >"$place/early.trace.gz"
python3 "$source_folder/tests/live/tools/lingering.py" "$place/gpumemd.sock" >"$place/lingering" &
lingering=$!
ok "what takes an hour to close is sent before gpumemd is there" wait_until 20 grep -q sent "$place/lingering"
come_early
ok "who connects before gpumemd is there waits" wait_until 20 sockets_there 3
listen_with client:admin "10 11"
go_on
ok "and is served when it comes" equal "$status" 0
kill "$lingering"
ok "so is who connects later" serves
ok "few stand in front of it, whatever systemd was told" equal "$(queue_in_front)" 5
ok "what concerns every tenant is asked over the other socket" gpumemctl free-all
ok "the sockets are for no program that it starts" is_closed_on_exec 3
ok "nor is the admin one" is_closed_on_exec 4
ok "it makes no files beside them" has_no_lock
end
ok "it ends in order" equal "$status" 0
ok "and leaves the sockets where they are" test -S "$place/gpumemd.sock" -a -S "$place/gpumemd.sock.admin"

come_early
ok "who connects between two of them waits" wait_until 20 sockets_there 2
mv "$place/gpumemd.sock.admin" "$place/gpumemd.sock.aside"
listen_with client "10"
go_on
ok "and is served by the next one" equal "$status" 0
end
ok "which need not have an admin socket" equal "$status" 0
mv "$place/gpumemd.sock.aside" "$place/gpumemd.sock.admin"

listen_with client:admin "10 11" --socket "$place/elsewhere.sock" --group 4711
ok "what is said of the socket is passed over" serves
ok "as the log says" grep -q "elsewhere.sock is ignored: systemd passed a socket at $place/gpumemd.sock" "$place/gpumemd.log"
ok "and of the group, too" grep -q "the group setting is ignored" "$place/gpumemd.log"
end
ok "it ends in order as well" equal "$status" 0

listen_pid=1 listen_with client:admin "10 11" --socket "$place/own.sock"
ok "what is meant for another process is left alone" \
        env GPUMEM_SOCKET="$place/own.sock" gpumemctl --wait 10 stats
end
ok "which ends in order" equal "$status" 0

# Not where the kernel has no numbers for processes of all times.
if python3 -c 'import os, sys; fd = os.pidfd_open(os.getpid()); sys.exit(os.fstat(fd).st_ino < 2**16)'; then
        LISTEN_PIDFDID=1 listen_with client:admin "10 11" --socket "$place/own.sock"
        ok "and what is meant for one that had its number" \
                env GPUMEM_SOCKET="$place/own.sock" gpumemctl --wait 10 stats
        end
        ok "which ends in order, too" equal "$status" 0
fi

ok "a file is no socket" refuses "not a Unix socket" client 0
ok "nor is one of another family" refuses "not a Unix socket" client 16
ok "a stream socket is refused" refuses "not a SOCK_SEQPACKET socket" client 13
ok "one that does not listen is refused" refuses "not listening" client 14
ok "one without a path is refused" refuses "no absolute path" client 15
ok "an unknown name is refused" refuses "unknown name" client:metrics "10 11"
ok "no name is refused" refuses "unknown name" "" 10
ok "a name twice is refused" refuses "a second socket of this name" client:client "10 11"
ok "an admin socket alone is refused" refuses 'no socket is named "client"' admin 11
ok "an admin socket elsewhere is refused" refuses "the admin socket has a path of its own" client:admin "10 12"
listen_fds=2
ok "a fd that is not open is refused" refuses ": not open (" client:admin 10
listen_fds=3
ok "more fds than there are sockets are refused" refuses 'LISTEN_FDS "3" (expected' client:admin "10 11"
listen_fds=-1
ok "what is no number is refused" refuses 'LISTEN_FDS "-1" (expected' client 10
done_testing
