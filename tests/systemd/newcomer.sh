# SPDX-License-Identifier: Apache-2.0
# What a user of the packages does with them, for boot.sh to source: by the README, by README.Debian of gpumemd-emulator
# and by the manual, as these are installed, word for word.

# The commands of README.Debian, of the part that begins with this word.
steps() {
        sed -n "/^    $1 /,/^\$/s/^    //p" "$root/usr/share/doc/gpumemd-emulator/README.Debian"
}

# A block of the README, of those that are fenced: the first is its program.
readme_block() {
        awk -v wanted="$1" '/^```c$/ { seen = 1; n = 1; next } /^```$/ && seen { n++; next } seen && n == wanted' \
                "$source_folder/README.md"
}

# Its commands in order, and what a reader would see.
replay_session() {
        local command
        while IFS= read -r command; do
                echo "\$ $command"
                as_user alice sh -c "$command" 2>&1 || return 1
        done < <(readme_block 3 | sed -n 's/^\$ //p')
}

same_session() {
        readme_block 1 >"$root/srv/alice/example.c"
        diff <(readme_block 3) <(replay_session)
}

needs_no_variables() {
        equal "$(guest runuser -u alice -- /srv/alice/example)" "$(readme_block 3 | tail -n 1)"
}

is_kept_out() {
        local said
        ! said=$(as_user mallory /srv/mallory/example 2>&1) && contains "$said" "permission denied"
}

# The program stands where it says what it holds, since its output is a pipe that is full.
stop_example() {
        as_user alice bash -c 'rm -f out; mkfifo out; exec 3<>out
                dd if=/dev/zero of=out bs=4096 oflag=nonblock 2>/dev/null
                exec stdbuf -o0 ./example >&3' &
        example=$!
}

let_example_go() {
        as_user alice sh -c 'timeout 60 tr -d "\0" <out' >"$place/example"
        wait "$example"
}

# A terminal of alice's.
terminal() {
        as_user alice env LC_ALL=C.UTF-8 TERM=xterm tmux -f /dev/null -L boot "$@"
}

open_terminal() {
        terminal new-session -d -x 110 -y 24 "$1"
}

screen_has() {
        terminal capture-pane -p >"$place/screen" && grep -q "$1" "$place/screen"
}

# shows PATTERN: after a while, or else what is there.
shows() {
        wait_until 20 screen_has "$1" || { cat "$place/screen"; return 1; }
}

is_closed() {
        ! terminal has-session 2>/dev/null
}

top_shows_the_program() {
        shows " 1000 ready .* example *$" && shows "^ *[0-9]* pinned memory .* of " &&
                equal "$(grep ' example *$' "$place/screen" | awk '{ print $1 }')" \
                        "$(guest pgrep --uid alice --exact example)"
}

look_at_top() {
        stop_example
        open_terminal "gpumemctl top"
        ok "gpumemctl top shows the program, by its number, and what it holds" top_shows_the_program
        sed '/^$/d; s/^/# /' "$place/screen"
        terminal send-keys q
        ok "q ends it" wait_until 20 is_closed
        status=0
        let_example_go || status=$?
        ok "the program goes on to its end" \
                equal "$status$(cat "$place/example")" "0$(readme_block 3 | tail -n 1)"
}

# Every page that the packages have.
pages() {
        guest dpkg -L gpumemd gpumem-bench libgpumem-client-dev | sed -n 's|^.*/man/man./\(.*\)\.gz$|\1|p'
}

# page NAME.SECTION: as it is printed.
page() {
        as_user alice env MANWIDTH=200 man --warnings "${1##*.}" "${1%.*}"
}

pages_are_read() {
        local name
        [ "$(pages | wc -l)" -gt 20 ] || { pages; return 1; }
        for name in $(pages); do
                page "$name" >"$place/page" 2>"$place/complaints" && grep -q '^SEE ALSO' "$place/page" &&
                        [ ! -s "$place/complaints" ] || { echo "$name:"; cat "$place/complaints"; return 1; }
        done
}

read_manual() {
        open_terminal "man gpumemd"
        ok "man gpumemd shows the daemon's page" shows "^gpumemd(8) .* gpumemd(8)\|^GPUMEMD(8) .* GPUMEMD(8)"
        terminal kill-server
        ok "all pages of the packages are read without a complaint" pages_are_read
}

# examples_of PAGE: each block of commands in a file of its own, and nothing but what the page shows.
examples_of() {
        rm -rf "$root/srv/alice/examples"
        mkdir "$root/srv/alice/examples"
        page "$1" | awk -v folder="$root/srv/alice/examples" '
                /^ *\$ / { n += !inside; sub(/^ *\$ /, ""); print > sprintf("%s/%02d", folder, n) }
                { inside = /./ && (inside || FNR) }'
        cp "$root/usr/share/doc/gpumemd/gpumemd.conf.example" "$root/srv/alice/gpumemd.conf"
}

run_example() {
        guest runuser -u alice -- env -C /srv/alice XDG_RUNTIME_DIR=/srv/alice/run timeout 60 bash -eux "examples/$1"
}

run_examples() {
        local file n=0
        as_user alice mkdir -p run
        examples_of "$1"
        for file in "$root"/srv/alice/examples/*; do
                n=$((n + 1))
                ok "$1 as installed, example $n: $(head -n 1 "$file")" run_example "${file##*/}"
        done
        ok "$1 as installed has examples" [ "$n" -ge "$2" ]
}

is_scraped() {
        guest curl --silent --show-error --fail http://127.0.0.1:14900/metrics >"$place/metrics" &&
                grep -qx 'gpumemd_up 1' "$place/metrics"
}

is_linted() {
        promtool check metrics <"$place/metrics"
}

scrape() {
        ok "the exporter is off until an administrator enables it" property_is gpumemd-exporter ActiveState inactive
        ok "its unit can be started" guest systemctl start gpumemd-exporter.service
        ok "curl gets the figures of a gpumemd that is there" wait_until 20 is_scraped
        if command -v promtool >/dev/null; then
                ok "promtool has nothing to say of them" is_linted
        else
                skip "promtool has nothing to say of them" "no promtool"
        fi
}

use() {
        ok "the README's program is compiled with the packages, and its session is as the README says" same_session
        ok "with pinned memory only it needs no variables" needs_no_variables
        cp "$root/srv/alice/example" "$root/srv/mallory/example"
        ok "who is not of the group is kept out" is_kept_out
        look_at_top
        read_manual
        run_examples gpumemd.8 3
        run_examples gpumem-bench.1 3
        scrape
}

no_process() {
        equal "$(guest ps -e -o comm= | grep '^gpumem')" ""
}

# found PATTERN: files of the packages, and what they made, but for what boot.sh and users put there.
found() {
        guest find /etc /lib /opt /run /usr /var /dev/shm -name "$1" -not -path '/etc/systemd/system/gpumemd.service.d*' \
                -not -path '/run/systemd/propagate/*' -not -path '/run/systemd/units/*' -not -path '/opt/boot*'
}

only_settings_are_left() {
        equal "$(guest dpkg -l gpumemd | sed -n 's/^\(..\) .*/\1/p' | tail -n 1)" rc &&
                equal "$(found 'gpumemd.conf' | sort | paste -sd ' ')" /etc/gpumemd/gpumemd.conf &&
                equal "$(guest find /lib/systemd /run /dev/shm -name 'gpumemd[.-]*' -not -path '/run/systemd/*')" \
                        /dev/shm/gpumemd-emulator && ! guest test -e /run/gpumemd
}

nothing_is_left() {
        equal "$(found '*gpumem*')" ""
}

purge() {
        guest apt-get purge -qq -y gpumemd gpumemd-emulator gpumem-bench libgpumem-client-dev libgpumem-client0
}

go_back() {
        steps rm | while IFS= read -r command; do
                guest sh -c "$command" || [ "$command" = "systemctl restart gpumemd.service" ]
        done
}

set_up_emulator() {
        guest sh -ec "$(steps install)"
}

# What a Debian package may leave behind, and whether it comes again, on a machine without a GPU.
leave() {
        echo '{}' >"$root/etc/gpumemd/gpumemd.conf"
        ok "apt-get remove is in order" guest apt-get remove -qq -y gpumemd
        ok "no process of it is left, the exporter's neither" no_process
        ok "no unit and no socket, and its settings are" only_settings_are_left
        ok "it can be installed again" guest sh -c 'apt-get install -qq -y /deb/gpumemd_*.deb'
        ok "and serves" wait_until 30 are_active

        rm -f "$root/etc/systemd/system/gpumemd.service.d/watchdog.conf"
        ok "README.Debian leads back to the machine's GPUs" go_back
        ok "of which there are none here" wait_until 20 says "libcuda.so.1"
        ok "all packages can be purged" purge
        ok "and nothing of them is left" wait_until 20 nothing_is_left
        ok "no process either" no_process

        guest systemctl reset-failed
        ok "without a GPU they can be installed, too" guest sh -c 'apt-get install -qq -y /deb/*.deb'
        ok "README.Debian's steps have the service run on the emulated driver" set_up_emulator
        ok "with it and its sockets active" wait_until 30 are_active
        ok "the README's session is again as it says" same_session
}
