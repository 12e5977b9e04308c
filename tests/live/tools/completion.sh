#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# completion.sh BUILD: what shells complete of gpumemctl's command line is what it takes.
set -eu -o pipefail

# shellcheck source=tests/daemon.sh
. "$(dirname "$0")/../../daemon.sh"

make_place 1 1GiB
completion=$source_folder/ctl/completion.bash
if [ ! -e "$completion" ]; then
        skip "bash: commands" "only a source tree has what shells read"
        done_testing
        exit
fi

# words WORD...: what bash completes behind them; the last one has been begun.
words() {
        bash --norc --noprofile -c '
                . "$1"
                shift
                function=$(complete -p gpumemctl | sed -n "s/^complete .*-F \([^ ]*\) gpumemctl$/\1/p")
                COMP_WORDS=("$@")
                COMP_LINE=${TYPED:-$*}
                COMP_POINT=${#COMP_LINE}
                COMP_CWORD=$(($# - 1))
                "$function" gpumemctl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
                printf "%s\n" "${COMPREPLY[@]}"' - "$completion" "$@" | sed 's/ $//' | sort -u
}
# zsh_words WORD...: the same of zsh, which knows users only if it is interactive.
zsh_words() {
        zsh -fic '
                completion=$1
                shift
                words=("$@")
                CURRENT=$#
                PREFIX=$words[CURRENT]
                compadd() {
                        while [[ $1 == -* && $1 != - ]]; do
                                [[ $1 != -S ]] || shift
                                shift
                        done
                        shift
                        (( ! $# )) || print -l -r -- "$@"
                }
                . "$completion"' - "$completion" "$@" | sort -u
}
options_of() { gpumemctl "$@" --help | grep -o -e '--[a-z][a-z-]*' | grep -v -x -e --help | sort -u; }
listed() { gpumemctl --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p' | sort; }

mapfile -t commands < <(listed)
ok "there are commands" [ ${#commands[@]} -ge 12 ]
ok "bash: commands" equal "$(words gpumemctl '')" "$(printf '%s\n' "${commands[@]}" help version | sort)"
ok "bash: help of a command" equal "$(words gpumemctl help sta | paste -sd ' ')" "stats status"
ok "bash: a command that was begun" equal "$(words gpumemctl reset)" reset-peaks
ok "bash: options before a command" equal "$(words gpumemctl --)" \
        "$(printf '%s\n' --help --socket --timeout --version --wait)"
# A command's help names its own options, and the common ones but for --help and --version.
for command in "${commands[@]}"; do
        ok "bash: the options of $command are those of its help" \
                equal "$(words gpumemctl "$command" -- | grep -v -x -e --help -e --version)" "$(options_of "$command")"
        ok "bash: an option before $command" contains "$(words gpumemctl --wait 1 "$command" --)" --socket
done
ok "bash: the value of an option is no command" equal "$(words gpumemctl --wait stats --js)" ""
touch "$place/some.svg"
ok "bash: files" equal "$(words gpumemctl map --svg "$place/so")" "$place/some.svg"
touch "$place/alone.sock" "$place/alone.sock.lock"
ok "bash: sockets, and no lock" equal "$(words gpumemctl --socket "$place/alo")" "$place/alone.sock"
mkdir "$place/sockets"
ok "bash: a folder" equal "$(words gpumemctl --socket "$place/sock")" "$place/sockets"
ok "bash: --option=value" equal "$(TYPED="gpumemctl blocks --state=le" words gpumemctl blocks --state = le)" leased

# limit_words TYPED WORD...: of a limit, which bash takes for these words.
limit_words() { TYPED="gpumemctl limits --set $1" words gpumemctl limits --set "${@:2}" | paste -sd ' '; }
ok "bash: whose limit, begun" equal "$(limit_words cl cl)" client:
ok "bash: which limit" equal "$(limit_words client: client :)" "device_bytes= leases= pinned_bytes="
ok "bash: which limit, begun" equal "$(limit_words tenant/7:le tenant/7 : le)" "leases="
ok "bash: which limit of a pool" equal "$(limit_words pool/0: pool/0 :)" "keep_cached_bytes= keep_free_bytes= max_bytes= min_bytes= return_after_seconds="
ok "bash: no limit" equal "$(limit_words tenant/7:leases= tenant/7 : leases =)" "default none"
ok "bash: a user's limit" equal "$(limit_words tenant/roo tenant/roo)" tenant/root:
ok "bash: --set=limit" equal "$(TYPED="gpumemctl limits --set=clie" words gpumemctl limits --set = clie)" client:
ok "bash: a value that may be missing" equal "$(TYPED="gpumemctl limits --save=$place/some" words gpumemctl limits --save = "$place/some")" "$place/some.svg"
ok "bash: an option behind it" equal "$(words gpumemctl limits --save --js)" --json
ok "bash: users" equal "$(words gpumemctl blocks --uid roo)" root
ok "bash: no daemon, no pools" equal "$(words gpumemctl blocks --pool '')" ""
start_daemon --canary off
ok "bash: whose limit" equal "$(limit_words '' '')" "client: pool/ tenant/ tenant:"
ok "bash: pools" equal "$(words gpumemctl blocks --pool '' | paste -sd ' ')" "$(seq -s ' ' 0 "$n_devices")"
ok "bash: pools of the daemon that is named" equal "$(words gpumemctl --socket "$place/none" blocks --pool '')" ""
ok "bash: a pool's limit" equal "$(limit_words pool/ pool/ | cut -d ' ' -f 1)" pool/0:
stop_daemon

# What is offered is what is allowed: gpumemctl says that when it refuses another word.
for pair in metrics--format events--what blocks--state clients--state blocks--sort clients--sort tenants--sort top--sort; do
        allowed=$(gpumemctl "${pair%%--*}" "--${pair#*--}" none-of-them 2>&1 || true)
        ok "bash: words behind ${pair%%--*} --${pair#*--}" \
                equal "$(words gpumemctl "${pair%%--*}" "--${pair#*--}" '')" \
                "$(printf '%s\n' "${allowed##*(expected }" | sed 's/)$//; s/, /\n/g' | sort)"
done

if command -v zsh >/dev/null; then
        for command in "${commands[@]}"; do
                ok "zsh: the options of $command" equal "$(zsh_words gpumemctl "$command" --)" "$(words gpumemctl "$command" --)"
        done
        ok "zsh: the commands" equal "$(zsh_words gpumemctl '')" "$(printf '%s\n' "${commands[@]}" help version | sort)"
        ok "zsh: --option=value" equal "$(zsh_words gpumemctl blocks --state=le)" --state=leased
        ok "zsh: a user's limit" equal "$(zsh_words gpumemctl limits --set tenant/roo)" tenant/root:
        ok "zsh: a folder" equal "$(zsh_words gpumemctl --socket "$place/sock")" "$place/sockets/"
        ok "zsh: a file" equal "$(zsh_words gpumemctl map --svg "$place/so")" "$(printf '%s\n' "$place/sockets/" "$place/some.svg")"
else
        skip "zsh: the commands" "no zsh"
fi

# A person at a keyboard.
terminal() { env -u TMUX TMUX_TMPDIR="$place" LC_ALL=C tmux -f /dev/null -L "$shell" "$@"; }
shell=none
trap 'terminal kill-server 2>/dev/null || true; clear_place' EXIT
has() { terminal capture-pane -p -J | grep -q -e "$1"; }
# offers FIRST SECOND LINE: a line of these two parts, with a Tab behind each.
offers() {
        terminal send-keys C-u "$1" Tab "$2" Tab
        wait_until 20 has "$3" || { terminal capture-pane -p; return 1; }
}
# completes COMMAND: a shell that has made itself ready, and says so.
completes() {
        terminal new-session -d -x 100 -y 20 "$1"
        wait_until 20 has "^ready" || { terminal capture-pane -p; return 1; }
        offers "gpumemctl blo" "--min" "gpumemctl blocks --min-size" &&
                offers "gpumemctl limits --set cl" le "gpumemctl limits --set client:leases=" &&
                offers "gpumemctl limits --set=tenant/roo" pi "gpumemctl limits --set=tenant/root:pinned_bytes=" &&
                offers "gpumemctl limits --set pool/0" ma "gpumemctl limits --set pool/0:max_bytes=" &&
                offers "gpumemctl --socket $place/alo" blo "gpumemctl --socket $place/alone.sock blocks" &&
                offers "gpumemctl events --what turn" --la "gpumemctl events --what turned-away --last" &&
                offers "gpumemctl blocks --uid roo" --po "gpumemctl blocks --uid root --pool"
}
start_daemon --canary off
for shell in bash zsh; do
        if ! command -v tmux >/dev/null || ! command -v "$shell" >/dev/null; then
                skip "$shell: Tab" "no tmux, or no such shell"
                continue
        fi
        if [ "$shell" = bash ]; then
                printf '. "%s"\nPS1="ready> "\n' "$completion" >"$place/rc"
                starts="bash --noprofile --rcfile '$place/rc' -i"
        else
                mkdir "$place/functions"
                ln -s "$completion" "$place/functions/_gpumemctl"
                printf 'fpath=("%s" $fpath)\nautoload -Uz compinit\ncompinit -u -D\nPS1="ready> "\n' \
                        "$place/functions" >"$place/.zshrc"
                starts="env ZDOTDIR='$place' zsh -d -i"
        fi
        ok "$shell: Tab" completes "$starts"
        terminal kill-server
done
stop_daemon
done_testing
