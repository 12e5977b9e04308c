#compdef gpumemctl
# shellcheck shell=bash
# What bash completes of gpumemctl's command line. zsh reads it, too, and has bashcompinit for that.
#
# `gpumemctl --list-options [COMMAND]` says what there is, a line each: a command; an option; or an option and its
# values, "--state=leased idle", which "--save[=]@file" may lack. There @file, @user and @pool stand for the names of all of them.

# _gpumemctl_files BEGUN: the files that begin so, a line each.
_gpumemctl_files() {
        local path=${1/#\~\//$HOME/} file

        for file in "$path"*; do
                # A lock beside a socket says that its gpumemd lives.
                [[ -e $file && $file != *.lock ]] || continue
                # bash adds this itself.
                [[ -z ${ZSH_VERSION-} || ! -d $file ]] || file=$file/
                echo "$1${file#"$path"}"
        done
}

# _gpumemctl_values VALUES BEGUN SOCKET: a line each, with names in the place of @user and @pool.
_gpumemctl_values() {
        local value before name names at=${3:+--socket=$3}

        for value in $1; do
                before=${value%%@*}
                if [[ $value == *@*:* && $2 == "$before"*:* ]]; then
                        # The name stands there already.
                        names=${2#"$before"}
                        names=${names%%:*}
                elif [[ $value == *@user* ]]; then
                        names=$(compgen -u)
                elif [[ $value == *@pool* ]]; then
                        names=$(gpumemctl stats --timeout 1 ${at:+"$at"} 2>/dev/null | sed -n 's/^ *\([0-9][0-9]*\) .*/\1/p')
                else
                        echo "$value"
                        continue
                fi
                for name in $names; do
                        echo "$before$name${value#*@????}"
                done
        done
}

# _gpumemctl_offer BEGUN WORDS [KIND BEFORE]: those of the lines that go on so, with BEFORE before each.
_gpumemctl_offer() {
        local last=${COMP_WORDS[COMP_CWORD]} word rest part end

        # For bash ":" and "=" are words, and what stands before the last word it has already.
        [[ $last != [:=] ]] || last=''
        while IFS= read -r word; do
                word=${word:+${4-}$word}
                [[ -n $word && $word == "$1"* ]] || continue
                rest=${word#"$1"}
                part=${rest%%[/:=]*}
                end=' '
                if [[ ${3-} == @file ]]; then
                        [[ -n ${ZSH_VERSION-} && $word != */ ]] || end=''
                elif [[ $part != "$rest" ]]; then
                        # A limit part by part: "tenant/", "root:", "leases=".
                        word=$1$part${rest:${#part}:1}
                        end=''
                fi
                COMPREPLY+=("${word#"${1%"$last"}"}$end")
        done <<<"$2"
}

_gpumemctl_complete() {
        local line=${COMP_LINE:0:$COMP_POINT} listed word command='' option='' socket='' before='' kind values

        COMPREPLY=()
        listed=$'\n'$(gpumemctl --list-options)
        line=${line#* }
        while [[ $line == *' '* ]]; do
                word=${line%% *}
                line=${line#* }
                [[ -n $word ]] || continue
                if [[ -n $option ]]; then
                        [[ $option != --socket ]] || socket=$word
                        option=''
                elif [[ $word == -* ]]; then
                        [[ $word != --socket=* ]] || socket=${word#*=}
                        [[ $listed != *$'\n'"$word="* ]] || option=$word
                else
                        command=$word
                        listed=$'\n'$(gpumemctl --list-options "$command" 2>/dev/null)
                fi
        done
        if [[ -z $option && $line == --*=* ]]; then
                option=${line%%=*}
                before=$option=
                listed=${listed//"[=]"/=}
        fi
        if [[ -z $option ]]; then
                # Options by their names; before a command none that is not begun.
                word='s/\[*=.*//'
                [[ -n $command || $line == -* ]] || word='/^-/d'
                _gpumemctl_offer "$line" "$(sed "$word" <<<"$listed")"
                return
        fi
        [[ $listed == *$'\n'"$option="* ]] || return
        kind=${listed#*$'\n'"$option="}
        kind=${kind%%$'\n'*}
        if [[ $kind == @file ]]; then
                compopt +o nospace -o filenames 2>/dev/null
                values=$(_gpumemctl_files "${line#"$before"}")
        else
                values=$(_gpumemctl_values "$kind" "${line#"$before"}" "$socket")
        fi
        _gpumemctl_offer "$line" "$values" "$kind" "$before"
}

if [[ -n ${ZSH_VERSION-} ]]; then
        autoload -Uz bashcompinit && bashcompinit
        _bash_complete -o nospace -F _gpumemctl_complete
else
        complete -o nospace -F _gpumemctl_complete gpumemctl
fi
