#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# boot.sh BUILD: the service as it is installed. systemd is booted by systemd-nspawn in a bare Debian root in
# which the packages of BUILD/deb were installed, on the emulated driver, and gpumemd is used there: programs
# that are compiled and served, reload, watchdog, restart, stop, upgrade, removal.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"
# shellcheck source=tests/systemd/machine.sh
. "$source_folder/tests/systemd/machine.sh"
# shellcheck source=tests/systemd/newcomer.sh
. "$source_folder/tests/systemd/newcomer.sh"

# What differs from a machine with a GPU is as README.Debian of gpumemd-emulator has it, but for the watchdog's time.
set_up() {
        local folder=$root/etc/systemd/system/gpumemd.service.d
        in_root sh -c "$(steps install | head -n 1)"
        # To be waited for here: the unit's is 20 s.
        printf '[Service]\nWatchdogSec=3\n' >"$folder/watchdog.conf"
        mapfile -t told < <(steps export | sed 's/^export //')
        mkdir "$root/opt/boot"
        cp "$build/tests/demo/gpumem-replay" "$root/opt/boot"
        printf 'a %d 4096 0\n' {0..9} | gzip >"$root/opt/boot/early.trace.gz"
}

install_packages() {
        mkdir "$root/deb"
        cp "$build"/deb/*.deb "$root/deb"
        rm -f "$root"/deb/*-dbgsym_*
        in_root sh -c 'apt-get install -qq -y --no-install-recommends /deb/*.deb' >"$place/apt.log" 2>&1 ||
                { cat "$place/apt.log"; return 1; }
        in_root useradd --create-home --home-dir /srv/alice alice
        in_root usermod --append --groups gpumem alice
        in_root useradd --create-home --home-dir /srv/mallory mallory
}

# property UNIT NAME
property() {
        guest systemctl show --property "$2" --value "$1"
}

property_is() {
        equal "$(property "$1" "$2")" "$3"
}

are_active() {
        guest systemctl is-active gpumemd.socket gpumemd-admin.socket gpumemd.service
}

are_enabled() {
        guest systemctl is-enabled gpumemd.socket gpumemd-admin.socket gpumemd.service
}

has_mode() {
        equal "$(guest stat -c '%A %U %G' "$1")" "$2"
}

status_line() {
        guest cat "/proc/$(property gpumemd MainPID)/status"
}

# As the unit says, seen from the kernel.
is_confined() {
        local status
        status=$(status_line)
        contains "$status" $'NoNewPrivs:\t1' && contains "$status" $'Seccomp:\t2' &&
                contains "$status" $'CapEff:\t0000000000000000' &&
                equal "$(guest stat -c %U "/proc/$(property gpumemd MainPID)")" gpumemd
}

limits_are_raised() {
        local wanted=524288
        [ "$(ulimit -Hn)" -ge "$wanted" ] || wanted=$(ulimit -Hn)
        equal "$(guest awk '/^Max open files/ { print $5 }' "/proc/$(property gpumemd MainPID)/limits")" "$wanted"
}

journal() {
        guest journalctl --no-pager --unit gpumemd.service --output cat
}

says() {
        journal | grep -q -- "$1" || { journal | tail -n 20; return 1; }
}

# A program that comes now: it is in the background, and served sooner or later.
come() {
        as_user alice /opt/boot/gpumem-replay --name early /opt/boot/early.trace.gz \
                >/dev/null 2>"$place/early" &
        early=$!
}

# Of these two the exit status is in `status`, and is 0 if every byte was right.
end_of_early() {
        status=0
        wait "$early" || status=$?
        said=$(cat "$place/early")
}

end_of_holder() {
        touch "$root/srv/alice/meeting.go"
        status=0
        wait "$holder" || status=$?
        said=$(cat "$place/holder")
}

# A program that holds memory until it may go on.
hold() {
        rm -f "$root"/srv/alice/meeting.*
        as_user alice /opt/boot/gpumem-replay --name holder --meeting /srv/alice/meeting \
                /usr/share/gpumem-bench/traces/diffusion.trace.gz >/dev/null 2>"$place/holder" &
        holder=$!
        wait_until 60 test -e "$root/srv/alice/meeting.holder"
}

has_other_pid() {
        local pid
        pid=$(property gpumemd MainPID)
        [ "$pid" -ne 0 ] && [ "$pid" -ne "$before" ]
}

serves_anew() {
        wait_until 60 has_other_pid && wait_until 30 property_is gpumemd ActiveState active
}

reload_with() {
        echo "$1" >"$root/etc/gpumemd/gpumemd.conf"
        guest systemctl reload gpumemd.service
}

shows_limit() {
        guest gpumemctl limits | grep -q "5.00 GiB"
}

says_what_it_waits_for() {
        property gpumemd StatusText | grep -q "^ending: waits .* held by clients: 1$"
}

sockets_are_gone() {
        ! guest test -e /run/gpumemd/gpumemd.sock && ! guest test -e /run/gpumemd/gpumemd.sock.admin
}

install() {
        ok "the packages are installed" install_packages
        set_up
}

begin() {
        ok "systemd is up, and no unit has failed" is_up
        ok "the package's service and sockets are active" are_active
        ok "and enabled" are_enabled
        ok "it said that it serves" property_is gpumemd StatusText serving
        ok "the sockets' folder is root's" has_mode /run/gpumemd "drwxr-xr-x root root"
        ok "the clients' socket is the group's" has_mode /run/gpumemd/gpumemd.sock "srw-rw---- root gpumem"
        ok "the admin socket is the daemon's user's" \
                has_mode /run/gpumemd/gpumemd.sock.admin "srw------- gpumemd gpumem"
        ok "the daemon has neither privileges nor capabilities" is_confined
        ok "and as many files as the unit says, or as this machine allows" limits_are_raised
}

configure() {
        ok "systemctl reload has a configuration read" \
                reload_with '{"limits": {"tenant": {"device_bytes": "5GiB"}}}'
        ok "which comes into force" wait_until 20 shows_limit
        ok "a wrong one is read, too" reload_with '{"limits": 1}'
        ok "of which the log tells" wait_until 20 says "reload failed; the old configuration stays in force"
        ok "and which changes nothing" shows_limit
        reload_with '{}'
}

# What is held, and who comes, while one daemon follows another.
restart() {
        hold
        before=$(property gpumemd MainPID)
        guest sh -c "kill -STOP $before"
        come
        ok "the watchdog ends a daemon that stands still, and another one serves" serves_anew
        ok "the log says why" says "Watchdog timeout"
        end_of_early
        ok "who came meanwhile was served by it" equal "$status$said" 0
        end_of_holder
        ok "who held memory had it all the time" equal "$status$said" 0

        hold
        before=$(property gpumemd MainPID)
        guest sh -c "kill -KILL $before"
        ok "another one serves after a kill" serves_anew
        end_of_holder
        ok "and goes on with who held memory" equal "$status$said" 0

        hold
        before=$(property gpumemd MainPID)
        come
        ok "systemctl restart is in order" guest systemctl restart gpumemd.service
        ok "and another one serves" serves_anew
        end_of_early
        ok "who came at that time was served" equal "$status$said" 0
        ok "it says who held memory" says "(holder), uid 1000: still holds"
        end_of_holder
        ok "and that memory was right" equal "$status$said" 0
}

stop() {
        guest systemctl stop gpumemd.service
        ok "a stopped service does not run" property_is gpumemd ActiveState inactive
        come
        end_of_early
        ok "who connects has it started" equal "$status$said" 0
        ok "and it serves" property_is gpumemd ActiveState active

        reload_with '{"drain_seconds": 600}'
        wait_until 20 says "gpumemd.conf: configuration reloaded"
        hold
        guest systemctl stop --no-block gpumemd.socket gpumemd-admin.socket gpumemd.service
        ok "with drain_seconds systemd hears what a stop waits for" wait_until 20 says_what_it_waits_for
        end_of_holder
        ok "it ends when that is given back" wait_until 30 property_is gpumemd ActiveState inactive
        ok "in order" property_is gpumemd Result success
        ok "and the sockets are gone with their units" sockets_are_gone
        rm "$root/etc/gpumemd/gpumemd.conf"
        ok "they are there again when they are started" \
                guest systemctl start gpumemd.socket gpumemd-admin.socket gpumemd.service
}

# No client waits for a daemon that cannot start.
fail() {
        guest systemctl stop gpumemd.service 2>/dev/null
        echo '{"limits": 1}' >"$root/etc/gpumemd/gpumemd.conf"
        come
        end_of_early
        ok "where it cannot start, who connects is told so soon" equal "$status" 1
        ok "since its sockets have given up with it" wait_until 20 property_is gpumemd.socket ActiveState failed
        rm "$root/etc/gpumemd/gpumemd.conf"
        guest systemctl reset-failed gpumemd.service gpumemd.socket gpumemd-admin.socket
        ok "when it can, all is well again" \
                guest systemctl start gpumemd.socket gpumemd-admin.socket gpumemd.service
}

exporter_is_another() {
        local pid
        pid=$(property gpumemd-exporter MainPID)
        [ "$pid" -ne 0 ] && [ "$pid" -ne "$1" ]
}

exchange() {
        local since exporter
        exporter=$(property gpumemd-exporter MainPID)
        before=$(property gpumemd MainPID)
        since=$(property gpumemd.socket ActiveEnterTimestampMonotonic)
        come
        ok "an upgrade of the package is in order" guest sh -c 'dpkg --install /deb/*.deb'
        ok "it has another daemon started" serves_anew
        ok "and leaves the sockets" property_is gpumemd.socket ActiveEnterTimestampMonotonic "$since"
        end_of_early
        ok "who came at that time was served all the same" equal "$status$said" 0
        ok "the exporter, which ran, is another one" wait_until 20 exporter_is_another "$exporter"
        ok "and is scraped" wait_until 20 is_scraped
}

inside() {
        place=$1
        root=$place/root
        cp -a "$base" "$root"
        install
        boot
        begin
        use
        configure
        restart
        stop
        fail
        exchange
        leave
        ok "no unit has failed in the end" is_up
        guest systemctl poweroff || true
        status=0
        wait "$nspawn" || status=$?
        ok "the system powers off" equal "$status" 0
        done_testing
}

if [ "${2-}" = inside ]; then
        inside "$3"
else
        in_namespaces "$0"
fi
