#!/bin/bash
# boot.sh BUILD: the service as it is installed. systemd is booted by systemd-nspawn in a bare Debian root in
# which the packages of BUILD/deb were installed, on the emulated driver, and gpumemd is used there: programs
# that are compiled and served, reload, watchdog, restart, stop, upgrade, removal.
#
# Needs root; installs systemd-container and debootstrap when missing. The root is made once, in BUILD/boot, by
# this machine's own apt mirror, and copied for each run. All that is mounted and started lives in namespaces of its
# own, so nothing of it outlives the script, however that ends.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
release=bookworm
base=$build/boot/$release
# shellcheck source=tests/debian-root.sh
. "$source_folder/tests/debian-root.sh"
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"

die() {
        echo "boot: $*" >&2
        exit 1
}

install_tools() {
        local tool missing=()
        for tool in debootstrap systemd-container; do
                [ "$(dpkg-query -W -f '${db:Status-Status}' "$tool" 2>/dev/null)" = installed ] ||
                        missing+=("$tool")
        done
        [ ${#missing[@]} -eq 0 ] || {
                apt-get update -qq
                DEBIAN_FRONTEND=noninteractive \
                        apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
        }
}

in_root() {
        chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
                DEBIAN_FRONTEND=noninteractive "$@" </dev/null
}

# What each run begins with. It is there when its name is.
make_base() {
        local mirror
        mirror=$(find_mirror)
        [ -n "$mirror" ] || die "apt of this machine has no source for $release"
        root=$base.new
        rm -rf --one-file-system "$root"
        mkdir -p "$root"
        debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus "$release" "$root" "$mirror" \
                >"$build/boot/debootstrap.log" 2>&1 ||
                { tail -n 20 "$build/boot/debootstrap.log" >&2; return 1; }
        copy_apt_settings
        in_root apt-get update -qq
        in_root apt-get install -qq -y --no-install-recommends gcc libc6-dev pkg-config \
                libjansson4 libuv1 >"$build/boot/apt.log" 2>&1
        mv "$root" "$base"
}

# Empty cgroups that nspawn leaves behind go, too.
clear_up() {
        rm -rf --one-file-system "$place"
        find /sys/fs/cgroup -mindepth 2 -depth \( -path '*/payload*' -o -path '*/supervisor*' \) -type d \
                -exec rmdir {} \; 2>/dev/null || true
}

# The outer part owns the folder; it starts the same script again inside the namespaces.
outer() {
        [ "$(id -u)" -eq 0 ] || die "must be root"
        ls "$build"/deb/gpumemd_*.deb >/dev/null 2>&1 || die "no packages in $build/deb: make deb"
        install_tools
        mkdir -p "$build/boot"
        [ -d "$base" ] || make_base
        place=$(mktemp -d "$build/boot/run-XXXXXX")
        chmod 755 "$place"
        trap clear_up EXIT
        unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
                "$0" "$build" inside "$place"
}

# All that differs from a machine with a GPU.
write_drop_in() {
        mkdir -p "$root/etc/systemd/system/gpumemd.service.d" "$root/opt/emulated" "$root/etc/tmpfiles.d"
        cp "$build"/driver/emulator/lib{cuda,nvml}-emu.so "$build/tests/demo/gpumem-replay" "$root/opt/emulated"
        cp "$source_folder/bench/traces/diffusion.trace.gz" "$root/opt/emulated/trace.gz"
        printf 'a %d 4096 0\n' {0..9} | gzip >"$root/opt/emulated/early.trace.gz"
        # What stands for the GPU's memory, which programs of every user map.
        echo 'd /dev/shm/emulated 1777 root root -' >"$root/etc/tmpfiles.d/emulated.conf"
        cat >"$root/etc/systemd/system/gpumemd.service.d/emulated.conf" <<EOF
[Service]
Environment=GPUMEM_CUDA_LIBRARY=/opt/emulated/libcuda-emu.so
Environment=GPUMEM_EMULATOR=devices=1,bytes=1GiB,dir=/dev/shm/emulated
# The emulated machine is in /dev/shm, and the service's user's files there would go with each stop.
RemoveIPC=no
# To be waited for here: the unit's is 20 s.
WatchdogSec=3
EOF
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

# guest COMMAND...: in the booted system, as root; as_user NAME COMMAND...
guest() {
        nsenter --target "$guest_init" --mount --uts --ipc --net --pid --cgroup \
                env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@" </dev/null
}

as_user() {
        local user=$1
        shift
        guest runuser -u "$user" -- env -C "/srv/$user" HOME="/srv/$user" \
                GPUMEM_CUDA_LIBRARY=/opt/emulated/libcuda-emu.so \
                GPUMEM_EMULATOR=devices=1,bytes=1GiB,dir=/dev/shm/emulated "$@"
}

wait_until() {
        local end=$((SECONDS + $1))
        shift
        until "$@" >/dev/null 2>&1; do
                [ "$SECONDS" -le "$end" ] || { "$@"; return; }
                sleep 0.1
        done
}

boot() {
        # What nspawn makes below /run goes with us.
        mkdir -p /run/systemd
        mount -t tmpfs tmpfs /run/systemd
        systemd-nspawn --directory "$root" --boot --register=no --keep-unit --private-network \
                --console=pipe </dev/null >"$place/console" 2>&1 &
        nspawn=$!
        wait_until 20 pgrep --parent "$nspawn"
        guest_init=$(pgrep --parent "$nspawn")
        wait_until 60 is_up
}

is_up() {
        local state
        state=$(guest systemctl is-system-running 2>&1) || true
        equal "$state" running
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

# A block of the README, of those that are fenced: the first is its program.
readme_block() {
        awk -v wanted="$1" '/^```c$/ { seen = 1; n = 1; next } /^```$/ && seen { n++; next } seen && n == wanted' \
                "$source_folder/README.md"
}

# As the README says, by the packages' compiler flags.
readme_program() {
        readme_block 1 >"$root/srv/alice/example.c"
        as_user alice sh -c 'cc example.c -o example $(pkg-config --cflags --libs gpumem-client)'
        equal "$(as_user alice ./example)" "$(readme_block 3 | tail -n 1)"
}

is_kept_out() {
        local said
        ! said=$(as_user mallory /srv/mallory/example 2>&1) && contains "$said" "permission denied"
}

# A program that comes now: it is in the background, and served sooner or later.
come() {
        as_user alice /opt/emulated/gpumem-replay --name early /opt/emulated/early.trace.gz \
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
        as_user alice /opt/emulated/gpumem-replay --name holder --meeting /srv/alice/meeting \
                /opt/emulated/trace.gz >/dev/null 2>"$place/holder" &
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

nothing_is_left() {
        ! ls -d "$root"/lib/systemd/system/gpumemd* "$root/usr/bin/gpumemd" 2>/dev/null
}

install() {
        ok "the packages are installed" install_packages
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

        ok "the README's program is compiled with the packages, and says what the README says" readme_program
        cp "$root/srv/alice/example" "$root/srv/mallory/example"
        ok "who is not of the group is kept out" is_kept_out
}

configure() {
        ok "systemctl reload has a configuration read" \
                reload_with '{"limits": {"tenant": {"device_bytes": "5GiB"}}}'
        ok "which comes into force" wait_until 20 shows_limit
        ok "a wrong one is read, too" reload_with '{"limits": 1}'
        ok "of which the log tells" wait_until 20 says "was not taken over: everything stays as it was"
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
        wait_until 20 says "gpumemd.conf was read again"
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

# Nobody waits for a daemon that cannot be.
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

exchange() {
        local since
        before=$(property gpumemd MainPID)
        since=$(property gpumemd.socket ActiveEnterTimestampMonotonic)
        come
        ok "an upgrade of the package is in order" guest sh -c 'dpkg --install /deb/*.deb'
        ok "it has another daemon started" serves_anew
        ok "and leaves the sockets" property_is gpumemd.socket ActiveEnterTimestampMonotonic "$since"
        end_of_early
        ok "who came at that time was served all the same" equal "$status$said" 0

        ok "the package can be removed" guest dpkg --purge gpumemd
        ok "and nothing of it is left" nothing_is_left
        ok "no unit has failed in the end" is_up
}

inside() {
        place=$1
        root=$place/root
        cp -a "$base" "$root"
        write_drop_in
        install
        boot
        begin
        configure
        restart
        stop
        fail
        exchange
        guest systemctl poweroff || true
        status=0
        wait "$nspawn" || status=$?
        ok "the system powers off" equal "$status" 0
        done_testing
}

if [ "${2-}" = inside ]; then
        inside "$3"
else
        outer
fi
