# SPDX-License-Identifier: Apache-2.0
# A machine that systemd-nspawn boots: a bare Debian with packages installed, for scripts to source. The caller sets
# `build` and `source_folder`, has TAP, and calls `in_namespaces`; that starts it again inside, where `place` is a
# folder and `root`, in it, the machine's. What is here sets `guest_init`, the machine's first process.
#
# Needs root; installs systemd-container and debootstrap when missing. The root is made once, in BUILD/boot, by
# this machine's own apt mirror, and copied for each run. All that is mounted and started lives in namespaces of its
# own, so nothing of it outlives the script, however that ends.

release=bookworm
# What a developer's machine has, and what the packages depend on.
packages=(gcc libc6-dev pkg-config man-db procps tmux curl libjansson4 libmicrohttpd12 libncurses6 libuv1 python3)
# Another list is another root.
base=$build/boot/$release-$(printf '%s ' "${packages[@]}" | cksum | cut -d ' ' -f 1)
# shellcheck source=tests/debian-root.sh
. "$source_folder/tests/debian-root.sh"

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
        in_root apt-get install -qq -y --no-install-recommends "${packages[@]}" \
                >"$build/boot/apt.log" 2>&1 || { tail -n 20 "$build/boot/apt.log" >&2; return 1; }
        mv "$root" "$base"
}

# Empty cgroups that nspawn leaves behind go, too.
clear_up() {
        rm -rf --one-file-system "$place"
        find /sys/fs/cgroup -mindepth 2 -depth \( -path '*/payload*' -o -path '*/supervisor*' \) -type d \
                -exec rmdir {} \; 2>/dev/null || true
}

# in_namespaces SCRIPT: makes the folder, and starts the script again inside the namespaces, to the end of which the
# folder is there.
in_namespaces() {
        [ "$(id -u)" -eq 0 ] || die "must be root"
        ls "$build"/deb/gpumemd_*.deb >/dev/null 2>&1 || die "no packages in $build/deb: make deb"
        install_tools
        mkdir -p "$build/boot"
        [ -d "$base" ] || make_base
        place=$(mktemp -d "$build/boot/run-XXXXXX")
        chmod 755 "$place"
        trap clear_up EXIT
        unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
                "$1" "$build" inside "$place"
}

# guest COMMAND...: in the booted system, as root.
guest() {
        nsenter --target "$guest_init" --mount --uts --ipc --net --pid --cgroup \
                env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
                "$@" </dev/null
}

# as_user NAME COMMAND...: with what users of the machine are told in `told`, variables of the environment.
as_user() {
        local user=$1
        shift
        guest runuser -u "$user" -- env -C "/srv/$user" HOME="/srv/$user" "${told[@]}" "$@"
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

