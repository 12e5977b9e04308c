#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A root of Debian with this machine's apt settings, for scripts to source. The caller sets `release`, and `root`,
# the folder.

# The URI under which apt of this machine finds the release, in whatever form that is configured.
find_mirror() {
        local uris

        uris=$(apt-get update --print-uris 2>/dev/null |
                sed -n "s,^'\(.*\)/dists/$release/InRelease'.*,\1,p")
        echo "${uris%%$'\n'*}"
}

# What apt of this machine needs to reach its mirror: sources, keys, proxies, authorities.
copy_apt_settings() {
        local path

        rm -f "$root/etc/apt/sources.list"
        for path in sources.list sources.list.d auth.conf auth.conf.d trusted.gpg trusted.gpg.d \
                    keyrings; do
                [ ! -e "/etc/apt/$path" ] || cp -rL "/etc/apt/$path" "$root/etc/apt/"
        done
        apt-config dump | grep -E '^Acquire::(https?|Check|Retries)' \
                >"$root/etc/apt/apt.conf.d/90host" || true

        mkdir -p "$root/usr/share/keyrings" "$root/usr/local/share" "$root/etc/ssl/certs"
        cp -rL /usr/share/keyrings/. "$root/usr/share/keyrings/"
        [ ! -d /usr/local/share/ca-certificates ] ||
                cp -rL /usr/local/share/ca-certificates "$root/usr/local/share/"
        [ ! -f /etc/ssl/certs/ca-certificates.crt ] ||
                cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
        cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
}
