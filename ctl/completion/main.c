/* Writes what completes gpumemctl's command line in a shell, from the table of its commands: a part of the
 * build. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ctl/commands.h"
#include "ctl/happened.h"
#include "ctl/limits.h"
#include "ctl/options.h"
#include "ctl/view.h"

#define COLUMNS_MAX 512

static void print_names(const struct option *options)
{
        for (; options->name; options++)
                (void)printf(" --%s", options->name);
}

static bool is_file(const struct command_value *value)
{
        return value->words && strcmp(value->words, COMMAND_VALUE_FILE) == 0;
}

/* With a space in the place of each comma. */
static void print_list(const char *text)
{
        for (; *text; text++) {
                if (*text != ',')
                        (void)putchar(*text);
        }
}

static void print_words(const struct command_value *value)
{
        char columns[COLUMNS_MAX], kinds[HAPPENED_KINDS_MAX];

        if (value->words && strcmp(value->words, COMMAND_VALUE_KINDS) == 0) {
                happened_list_kinds(kinds);
                print_list(kinds);
                return;
        }
        if (!value->list) {
                (void)fputs(value->words, stdout);
                return;
        }
        view_list_columns(value->list, columns, sizeof(columns));
        print_list(columns);
}

static void print_bash_values(const struct command *command)
{
        for (const struct command_value *value = command->values; value && value->option; value++) {
                (void)printf("                %s,--%s) ", command->name, value->option);
                if (is_file(value)) {
                        (void)puts("_gpumemctl_files ;;");
                } else {
                        (void)fputs("words='", stdout);
                        print_words(value);
                        (void)puts("' ;;");
                }
        }
}

/* The options of each command, whether they take a value, and of some which. */
static void print_bash_tables(void)
{
        const struct command *command;

        (void)puts("        case $command in");
        for (unsigned i = 0; (command = command_at(i)); i++) {
                (void)printf("                %s) options=$common'", command->name);
                print_names(command->options);
                (void)puts("' ;;");
        }
        (void)puts("                *) options=$common words=$commands ;;\n"
                   "        esac");
        (void)puts("        case $command,$before in\n"
                   "                *,--socket) _gpumemctl_files -X '*.lock' ;;\n"
                   "                *,--uid) words=$(compgen -u) ;;\n"
                   "                *,--pool) words=$(_gpumemctl_pools) ;;");
        for (unsigned i = 0; (command = command_at(i)); i++)
                print_bash_values(command);
        (void)puts("                *) is_known= ;;\n"
                   "        esac");
}

/* All that take a value, as a pattern of a case: the word behind one is no command. */
static void print_valued(void)
{
        struct option all[OPTIONS_MAX];
        const char *between = "";

        options_join(all);
        for (const struct option *option = all; option->name; option++) {
                if (!option->has_arg)
                        continue;
                (void)printf("%s--%s", between, option->name);
                between = " | ";
        }
}

/* bash takes "--set tenant/1:leases=2" for five words, of which the last is completed. */
static void print_bash_limits(void)
{
        (void)puts("# The pools of a daemon that answers.\n"
                   "_gpumemctl_pools() {\n"
                   "        local i at=() id rest\n"
                   "        for ((i = 1; i < COMP_CWORD; i++)); do\n"
                   "                if [ \"${COMP_WORDS[i]}\" = --socket ]; then\n"
                   "                        at=(--socket \"${COMP_WORDS[i + 1]}\")\n"
                   "                        [ \"${at[1]}\" != = ] || at[1]=${COMP_WORDS[i + 2]}\n"
                   "                fi\n"
                   "        done\n"
                   "        gpumemctl stats --timeout 1 \"${at[@]}\" 2>/dev/null |\n"
                   "                while read -r id rest; do\n"
                   "                        [[ $id != [0-9]* ]] || echo \"$id\"\n"
                   "                done\n"
                   "}\n"
                   "\n"
                   "# _gpumemctl_limits TYPED: WHO:WHAT=N, as far as that goes.\n"
                   "_gpumemctl_limits() {\n"
                   "        local typed=$1 who=${1%%:*} words before=$1\n"
                   "        case $typed in\n"
                   "                *:min_bytes=*) words='' ;;\n"
                   "                tenant/*:*=*) words='none default' ;;\n"
                   "                *:*=*) words=none ;;");
        (void)fputs("                pool/*:*) words='", stdout);
        print_list(LIMITS_OF_POOL);
        (void)fputs("' ;;\n                *:*) words='", stdout);
        print_list(LIMITS_OF_OTHERS);
        (void)puts(
                "' ;;\n"
                "                tenant/*) words=$(compgen -P tenant/ -S : -u) ;;\n"
                "                pool/*) words=$(_gpumemctl_pools) words=$(compgen -P pool/ -S : "
                "-W \"$words\") ;;\n"
                "                *) words='client: tenant: tenant/ pool/' ;;\n"
                "        esac\n"
                "        case $typed in\n"
                "                *:*=*) words=$(compgen -P \"${typed%%=*}=\" -W \"$words\") ;;\n"
                "                *:*) words=$(compgen -P \"$who:\" -S = -W \"$words\") ;;\n"
                "        esac\n"
                "        # The part that is completed is behind the last of what divides words.\n"
                "        case $current in\n"
                "                : | =) ;;\n"
                "                *) before=${typed%\"$current\"} ;;\n"
                "        esac\n"
                "        compopt -o nospace 2>/dev/null\n"
                "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$typed\")\n"
                "        COMPREPLY=(\"${COMPREPLY[@]#\"$before\"}\")\n"
                "}\n");
}

static void print_bash(void)
{
        const struct command *command;

        (void)puts("# bash completion for gpumemctl: made by its build.\n"
                   "\n"
                   "# _gpumemctl_files [OPTION]...: with these options of compgen.\n"
                   "_gpumemctl_files() {\n"
                   "        compopt -o filenames 2>/dev/null\n"
                   "        mapfile -t COMPREPLY < <(compgen -f \"$@\" -- \"$current\")\n"
                   "}\n"
                   "\n"
                   "# is_valued WORD: is it an option whose value is the next word?\n"
                   "_gpumemctl_is_valued() {\n"
                   "        case $1 in");
        (void)printf("                ");
        print_valued();
        (void)puts(") return 0 ;;\n"
                   "        esac\n"
                   "        return 1\n"
                   "}\n");
        print_bash_limits();
        (void)puts("_gpumemctl() {\n"
                   "        local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD "
                   "- 1]}\n"
                   "        local command='' options='' words='' is_known=yes i");
        (void)printf("        local commands='");
        for (unsigned i = 0; (command = command_at(i)); i++)
                (void)printf("%s%s", i ? " " : "", command->name);
        (void)printf("'\n        local common='");
        print_names(options_common);
        (void)puts("'\n"
                   "\n"
                   "        COMPREPLY=()\n"
                   "        if [[ ${COMP_LINE:0:COMP_POINT} =~ --set[[:blank:]=]+([^[:blank:]]*)$ "
                   "]]; then\n"
                   "                _gpumemctl_limits \"${BASH_REMATCH[1]}\"\n"
                   "                return 0\n"
                   "        fi\n"
                   "        # --option=value comes as three words.\n"
                   "        [ \"$current\" != = ] || current=''\n"
                   "        [ \"$before\" != = ] || before=${COMP_WORDS[COMP_CWORD - 2]}\n"
                   "        for ((i = 1; i < COMP_CWORD; i++)); do\n"
                   "                case ${COMP_WORDS[i]} in\n"
                   "                        -* | =) ;;\n"
                   "                        *)\n"
                   "                                [ \"${COMP_WORDS[i - 1]}\" = = ] ||\n"
                   "                                        _gpumemctl_is_valued \"${COMP_WORDS[i "
                   "- 1]}\" ||\n"
                   "                                        command=${COMP_WORDS[i]}\n"
                   "                                ;;\n"
                   "                esac\n"
                   "        done");
        print_bash_tables();
        (void)puts("        [ ${#COMPREPLY[@]} -eq 0 ] || return 0\n"
                   "        if _gpumemctl_is_valued \"$before\"; then\n"
                   "                [ -n \"$is_known\" ] || words=''\n"
                   "        elif [[ $current == -* ]]; then\n"
                   "                words=$options\n"
                   "        elif [ -n \"$command\" ]; then\n"
                   "                words=$options\n"
                   "        fi\n"
                   "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
                   "}\n"
                   "\n"
                   "complete -F _gpumemctl gpumemctl");
}

/* As it stands between single quotes. */
static void print_quoted(const char *text)
{
        for (; *text; text++) {
                if (*text == '\'')
                        (void)fputs("'\\''", stdout);
                else if (*text == ':')
                        (void)fputs("\\:", stdout);
                else
                        (void)putchar(*text);
        }
}

static const struct command_value *find_value(const struct command *command, const char *option)
{
        const struct command_value *value = command ? command->values : NULL;

        while (value && value->option && strcmp(value->option, option) != 0)
                value++;
        return value && value->option ? value : NULL;
}

static void print_zsh_value(const char *name, const struct command_value *value)
{
        (void)printf("=:%s:", name);
        if (!value && strcmp(name, "socket") == 0) {
                /* Beside the sockets are the files that say whether a gpumemd lives. */
                (void)fputs("_files -F \"*.lock\"", stdout);
        } else if (value && is_file(value)) {
                (void)fputs("_files", stdout);
        } else if (strcmp(name, "uid") == 0) {
                (void)fputs("_users", stdout);
        } else if (strcmp(name, "pool") == 0) {
                (void)fputs("_gpumemctl_pools", stdout);
        } else if (strcmp(name, "set") == 0) {
                (void)fputs("_gpumemctl_limits", stdout);
        } else if (value) {
                (void)putchar('(');
                print_words(value);
                (void)putchar(')');
        } else {
                (void)putchar(' ');
        }
        (void)putchar('\'');
}

/* A specification of _arguments for each option. */
static void print_zsh_options(const struct command *command, const struct option *options)
{
        for (const struct option *option = options; option->name; option++) {
                const struct command_value *value = find_value(command, option->name);

                (void)printf(" '--%s", option->name);
                if (!option->has_arg)
                        (void)putchar('\'');
                else
                        print_zsh_value(option->name, value);
        }
}

static void print_zsh_limits(void)
{
        (void)puts(
                "# The pools of a daemon that answers.\n"
                "_gpumemctl_pool_ids() {\n"
                "        local -a at\n"
                "        local i=${words[(i)--socket]} id rest\n"
                "        (( i >= CURRENT )) || at=(--socket ${(Q)words[i+1]})\n"
                "        gpumemctl stats --timeout 1 $at 2>/dev/null | while read -r id rest; do\n"
                "                [[ $id != [0-9]* ]] || print -- $id\n"
                "        done\n"
                "}\n"
                "\n"
                "_gpumemctl_pools() {\n"
                "        compadd -- $(_gpumemctl_pool_ids)\n"
                "}\n"
                "\n"
                "# WHO:WHAT=N, as far as that goes.\n"
                "_gpumemctl_limits() {\n"
                "        local -a found\n"
                "        case $PREFIX in\n"
                "                *:min_bytes=*) ;;\n"
                "                tenant/*:*=*) found=(${PREFIX%%=*}={none,default}) ;;\n"
                "                *:*=*) found=(${PREFIX%%=*}=none) ;;");
        (void)fputs("                pool/*:*) found=(", stdout);
        print_list(LIMITS_OF_POOL);
        (void)fputs(") found=(${PREFIX%%:*}:${^found}=) ;;\n                *:*) found=(", stdout);
        print_list(LIMITS_OF_OTHERS);
        (void)puts(") found=(${PREFIX%%:*}:${^found}=) ;;\n"
                   "                tenant/*) found=(tenant/${^${(k)userdirs}}:) ;;\n"
                   "                pool/*) found=($(_gpumemctl_pool_ids)) found=(pool/${^found}:) "
                   ";;\n"
                   "                *) found=(client: tenant: tenant/ pool/) ;;\n"
                   "        esac\n"
                   "        compadd -S '' -- $found\n"
                   "}\n");
}

static void print_zsh(void)
{
        const struct command *command;

        (void)puts("#compdef gpumemctl\n"
                   "# Made by gpumemctl's build.\n"
                   "\n"
                   "_gpumemctl_commands() {\n"
                   "        local -a commands=(");
        for (unsigned i = 0; (command = command_at(i)); i++) {
                (void)printf("                '%s:", command->name);
                print_quoted(command->line);
                (void)puts("'");
        }
        (void)puts("        )\n"
                   "        _describe command commands\n"
                   "}\n");
        print_zsh_limits();
        (void)puts("_gpumemctl() {\n"
                   "        local word\n"
                   "        local -a own");
        (void)printf("        local -a common=(");
        print_zsh_options(NULL, options_common);
        (void)puts(")\n"
                   "        for word in ${words[2,CURRENT-1]}; do\n"
                   "                case $word in");
        for (unsigned i = 0; (command = command_at(i)); i++) {
                (void)printf("                %s) own=(", command->name);
                print_zsh_options(command, command->options);
                (void)puts(") ;;");
        }
        (void)puts("                esac\n"
                   "        done\n"
                   "        _arguments $common $own '1: :_gpumemctl_commands'\n"
                   "}\n"
                   "\n"
                   "_gpumemctl \"$@\"");
}

int main(int argc, char **argv)
{
        if (argc == 2 && strcmp(argv[1], "bash") == 0) {
                print_bash();
        } else if (argc == 2 && strcmp(argv[1], "zsh") == 0) {
                print_zsh();
        } else {
                (void)fprintf(stderr, "gpumemctl-completion: bash or zsh\n");
                return 2;
        }
        return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
