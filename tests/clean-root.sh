#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# clean-root.sh [--keep] [DIR]: does a fresh clone work on a bare Debian 12? Makes a minimal root
# in DIR (a temporary folder by default), gives it make, git and ca-certificates, clones the
# committed state of this repository into it and runs there what the README says.
#
# Needs root, debootstrap, and CUDA headers on this machine, which the root sees read-only at the
# same place. It uses this machine's own apt mirror. Everything mounted and started lives in
# namespaces of its own, so nothing of it outlives the script, however that ends.
set -eu -o pipefail

release=bookworm

die() {
        echo "clean-root: $*" >&2
        exit 1
}

# The outer part owns the folder; it starts the same script again inside the namespaces.
run_in_namespaces() {
        local child

        unshare --mount --propagation private --pid --fork --kill-child "$0" --inside "$1" &
        child=$!
        trap 'kill -KILL "$child"; exit 130' INT TERM
        wait "$child"
}

remove() {
        # Processes of a killed run may still be creating files for a moment.
        rm -rf --one-file-system "$1" 2>/dev/null || { sleep 1 && rm -rf --one-file-system "$1"; }
}

repository=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
cuda_home=${CUDA_HOME:-/usr/local/cuda}
isolation=()

# shellcheck source=tests/debian-root.sh
. "$repository/tests/debian-root.sh"

mount_all() {
        local headers

        headers=$(realpath "$cuda_home/include") || die "no CUDA headers in $cuda_home/include"
        [ -f "$headers/cuda.h" ] || die "no cuda.h in $headers"
        # The root of a machine is a mount: its propagation can be changed.
        mount --bind "$root" "$root"
        mkdir -p "$root$cuda_home/include"
        mount --bind "$headers" "$root$cuda_home/include"
        mount -o remount,bind,ro "$root$cuda_home/include"

        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mountpoint -q "$root/dev/shm" || mount -t tmpfs tmpfs "$root/dev/shm"
}

# Runs a command in the root with a bare environment, but for the ways to the network.
in_root() {
        local name
        local -a settings=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8)

        [ -z "${CUDA_HOME:-}" ] || settings+=("CUDA_HOME=$CUDA_HOME")
        for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
                [ -z "${!name:-}" ] || settings+=("$name=${!name}")
        done
        "${isolation[@]}" chroot "$root" env -i "${settings[@]}" "$@" </dev/null
}

make_root() {
        local mirror

        mirror=$(find_mirror)
        [ -n "$mirror" ] || die "apt of this machine has no source for $release"
        debootstrap --variant=minbase "$release" "$root" "$mirror" >"$root/debootstrap.out" 2>&1 ||
                { tail -n 20 "$root/debootstrap.out" >&2; return 1; }
        rm -f "$root/debootstrap.out"
        copy_apt_settings
        mount_all
        in_root apt-get update -qq
        in_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -qq -y --no-install-recommends make git ca-certificates >/dev/null
}

clone() {
        # Not in root's home: tests run programs of other users, who cannot reach it.
        git -C "$repository" bundle create --quiet "$root/root/repository" HEAD
        in_root git -c advice.detachedHead=false clone --quiet /root/repository /srv/gpumemd
}

make_in_root() {
        in_root env -C /srv/gpumemd make "$@"
}

verdicts=()
failed=no

# step WHAT COMMAND...: runs a function with errors fatal to it, and notes how it went.
step() {
        local what=$1 begin=$SECONDS status
        shift

        echo "== $what"
        # Not `|| status=$?`: within a condition the shell forgets that errors are fatal.
        set +e
        (set -e; "$@")
        status=$?
        set -e
        if [ "$status" -eq 0 ]; then
                verdicts+=("passed, $((SECONDS - begin)) s: $what")
        else
                verdicts+=("FAILED, $((SECONDS - begin)) s: $what (status $status)")
                failed=yes
        fi
}

finish() {
        echo "== verdict"
        printf '%s\n' "${verdicts[@]}"
        [ "$failed" = no ] || exit 1
        exit 0
}

inside() {
        trap 'exit 130' INT TERM
        trap 'umount -R "$root/dev" "$root/proc" "$root$cuda_home/include" 2>/dev/null || true' EXIT
        step "a minimal $release" make_root
        [ "$failed" = no ] || finish
        step "clone" clone
        [ "$failed" = no ] || finish
        step "make demo" make_in_root demo
        # A second run has nothing left to install: it must do without a network.
        isolation=(unshare --net)
        step "make demo, again, without a network" make_in_root demo
        isolation=()
        step "make test" make_in_root test
        finish
}

outer() {
        local keep=no

        if [ "${1:-}" = --keep ]; then
                keep=yes
                shift
        fi
        [ $# -le 1 ] || die "usage: clean-root.sh [--keep] [DIR]"
        [ "$(id -u)" -eq 0 ] || die "must be root"
        command -v debootstrap >/dev/null ||
                die "debootstrap is missing: apt-get install debootstrap"
        [ ! -e "${1:-/nonexistent}" ] || die "$1 exists already"

        # Not local: the trap reads it at the very end.
        dir=$(realpath -m "${1:-$(mktemp -d)}")
        mkdir -p "$dir"
        # mktemp's folder is its owner's alone; a root must be open to every user in it.
        chmod 755 "$dir"
        if [ "$keep" = yes ]; then
                trap 'echo "clean-root: kept $dir"' EXIT
        else
                trap 'remove "$dir"' EXIT
        fi
        run_in_namespaces "$dir"
}

if [ "${1:-}" = --inside ]; then
        root=$2
        inside
else
        outer "$@"
fi
