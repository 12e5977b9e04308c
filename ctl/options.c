/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/options.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "ctl/core/nearest.h"
#include "ctl/output/parse.h"
#include "ctl/query/event_rows.h"
#include "ctl/query/filter.h"
#include "proto/address.h"
#include "proto/messages.h"

#define WAIT_S_MAX  86400
#define COLUMNS_MAX 512

/* The options of every command; the numbers are beyond those that commands use. */
enum common_id {
        COMMON_SOCKET = 1024,
        COMMON_WAIT,
        COMMON_TIMEOUT,
        COMMON_HELP,
        COMMON_VERSION,
        COMMON_LIST,
};

static const struct option options_common[] = {
        {"socket", required_argument, NULL, COMMON_SOCKET},
        {"wait", required_argument, NULL, COMMON_WAIT},
        {"timeout", required_argument, NULL, COMMON_TIMEOUT},
        {"help", no_argument, NULL, COMMON_HELP},
        {"version", no_argument, NULL, COMMON_VERSION},
        COMMAND_OPTIONS_END,
};

/* For shells that complete: ctl/completion.bash. No help names it. */
static const struct option options_hidden[] = {
        {"list-options", no_argument, NULL, COMMON_LIST},
        COMMAND_OPTIONS_END,
};

/* Of all commands together, each name once. */
#define OPTIONS_MAX 64

/* Words that a mistyped one is compared with. */
#define WORDS_MAX (OPTIONS_MAX + ARRAY_SIZE(options_common))

/* The command that gpumemctl alone runs. */
#define DEFAULT_COMMAND "status"

/* Of every command that has such an option. */
static const struct command_value common_values[] = {
        {"socket", "@file", NULL},
        {"uid", "@user", NULL},
        {"pool", "@pool", NULL},
        COMMAND_VALUES_END,
};

/* An option as it was given. Its command is known only after the last word. */
struct given {
        const char *name;
        const char *value;
};

struct given_list {
        unsigned n;
        struct given *given;
};

static const struct command *const commands[] = {
#define COMMAND(name) &name##_command,
#include "ctl/core/command.def"
#undef COMMAND
};

/* These words have no options of their own. */
static const char word_help[] = "help", word_version[] = "version";

const struct command *command_at(unsigned n)
{
        return n < ARRAY_SIZE(commands) ? commands[n] : NULL;
}

static const struct option *find_option(const struct option *options, const char *name)
{
        for (; options->name; options++) {
                if (strcmp(options->name, name) == 0)
                        return options;
        }
        return NULL;
}

/* Adds those that are missing: getopt must know each name once. */
static void join_options(const struct option *options, struct option *all, unsigned *n)
{
        for (; options->name; options++) {
                const struct option *other = find_option(all, options->name);

                assert(!other || other->has_arg == options->has_arg);
                if (other)
                        continue;
                assert(*n + 1 < OPTIONS_MAX);
                all[*n] = (struct option){options->name, options->has_arg, NULL, 0};
                all[++*n] = COMMAND_OPTIONS_END;
        }
}

static void join_all(struct option all[static OPTIONS_MAX])
{
        const struct command *command;
        unsigned n = 0;

        all[0] = COMMAND_OPTIONS_END;
        join_options(options_common, all, &n);
        join_options(options_hidden, all, &n);
        for (unsigned i = 0; (command = command_at(i)); i++)
                join_options(command->options, all, &n);
}

static const struct command *find_command(const char *name)
{
        const struct command *command;

        for (unsigned i = 0; (command = command_at(i)); i++) {
                if (strcmp(command->name, name) == 0)
                        return command;
        }
        return NULL;
}

static const struct given *find_given(const struct given_list *list, const char *name)
{
        for (unsigned i = 0; i < list->n; i++) {
                if (strcmp(list->given[i].name, name) == 0)
                        return &list->given[i];
        }
        return NULL;
}

static enum parsed parse_pool(const char *text, uint32_t *ret_pool)
{
        uint64_t value;

        if (parse_number(text, &value) || value >= PROTO_POOLS_MAX) {
                (void)parse_refuse("--pool", text, "a pool's number, see gpumemctl stats");
                return PARSED_WRONG;
        }
        *ret_pool = (uint32_t)value;
        return PARSED_RUN;
}

/* What no address can hold is a wrong option, not a daemon that is away. */
static enum parsed parse_socket(const char *text, const char **ret_path)
{
        struct sockaddr_un address;

        if (address_to_connect(text, &address)) {
                (void)parse_refuse("--socket", text, "a path of 1-107 bytes");
                return PARSED_WRONG;
        }
        *ret_path = text;
        return PARSED_RUN;
}

static enum parsed parse_seconds(const char *option, const char *text, unsigned least,
                                 unsigned *ret_seconds)
{
        char expected[64];
        uint64_t value;

        if (parse_number(text, &value) || value < least || value > WAIT_S_MAX) {
                (void)snprintf(expected, sizeof(expected), "%u-%d seconds", least, WAIT_S_MAX);
                (void)parse_refuse(option, text, expected);
                return PARSED_WRONG;
        }
        *ret_seconds = (unsigned)value;
        return PARSED_RUN;
}

static enum parsed refuse_option(const struct invocation *invocation, const char *name)
{
        const struct command *command = invocation->command;

        if (!invocation->is_named)
                (void)fprintf(stderr, "gpumemctl: --%s needs a command; see gpumemctl help\n",
                              name);
        else if (strcmp(name, "set") == 0)
                (void)fprintf(stderr, "gpumemctl: only limits takes --set\n");
        else
                (void)fprintf(stderr, "gpumemctl: %s takes no --%s; see gpumemctl help %s\n",
                              command->name, name, command->name);
        return PARSED_WRONG;
}

static enum parsed take_own(const struct given *given, struct invocation *invocation)
{
        const struct command *command = invocation->command;
        const struct option *option = find_option(command->options, given->name);
        struct arguments *arguments = &invocation->arguments;

        if (!option)
                return refuse_option(invocation, given->name);
        switch (option->val) {
        case OPTION_JSON:
                arguments->output = OUTPUT_JSON;
                return PARSED_RUN;
        case OPTION_WIDE:
                if (arguments->output == OUTPUT_TABLE)
                        arguments->output = OUTPUT_WIDE;
                return PARSED_RUN;
        case OPTION_POOL:
                return parse_pool(given->value, &arguments->pool);
        case OPTION_TENANT:
                arguments->scope = PROTO_SCOPE_TENANT;
                return PARSED_RUN;
        default:
                return command->take(option->val, given->value, arguments) ? PARSED_WRONG
                                                                           : PARSED_RUN;
        }
}

static enum parsed take_option(const struct given *given, struct invocation *invocation)
{
        const struct option *option = find_option(options_common, given->name);
        struct arguments *arguments = &invocation->arguments;

        switch (option ? option->val : 0) {
        case COMMON_SOCKET:
                return parse_socket(given->value, &arguments->socket_path);
        case COMMON_WAIT:
                return parse_seconds("--wait", given->value, 0, &arguments->wait_s);
        case COMMON_TIMEOUT:
                return parse_seconds("--timeout", given->value, 1, &arguments->timeout_s);
        default:
                return take_own(given, invocation);
        }
}

static void add_words(const struct option *options, const char **words, unsigned *n)
{
        for (; options->name && *n + 1 < WORDS_MAX; options++)
                words[(*n)++] = options->name;
}

static enum parsed refuse_command(const char *word)
{
        const char *words[WORDS_MAX] = {word_help, word_version}, *nearest;
        const struct command *command;

        for (unsigned i = 0; (command = command_at(i)) && i + 3 < WORDS_MAX; i++)
                words[i + 2] = command->name;
        nearest = nearest_word(word, words);
        (void)fprintf(stderr, "gpumemctl: unknown command \"%s\"%s%s%s see gpumemctl help\n", word,
                      nearest ? "; did you mean \"" : ";", nearest ? nearest : "",
                      nearest ? "\"?" : "");
        return PARSED_WRONG;
}

/* A value that may be missing is joined to its option: a word behind --save is none. */
static enum parsed refuse_more(const char *command, const char *word, const struct given_list *list)
{
        const struct given *save = find_given(list, "save");

        if (save && !save->value)
                (void)fprintf(
                        stderr,
                        "gpumemctl: unexpected word \"%s\": --save alone writes the file that "
                        "gpumemd was started with; for another file it is --save=%s\n",
                        word, word);
        else
                (void)fprintf(stderr,
                              "gpumemctl: unexpected word \"%s\" after %s; see gpumemctl help\n",
                              word, command);
        return PARSED_WRONG;
}

/* "help" may have the name of a command behind it, and each command stands alone. The two words without options are
 * explained by the help of gpumemctl as a whole. */
static enum parsed take_command(int argc, char **argv, const struct given_list *list,
                                struct invocation *invocation)
{
        const char *word = optind < argc ? argv[optind] : DEFAULT_COMMAND;
        bool is_help = strcmp(word, word_help) == 0;
        int n = argc - optind;

        if (n > (is_help ? 2 : 1))
                return refuse_more(word, argv[argc - 1], list);
        if (strcmp(word, word_version) == 0)
                return PARSED_VERSION;
        if (is_help && n == 1)
                return PARSED_HELP;
        if (is_help)
                word = argv[optind + 1];
        if (is_help && (strcmp(word, word_help) == 0 || strcmp(word, word_version) == 0))
                return PARSED_HELP;
        invocation->is_named = n > 0;
        invocation->command = find_command(word);
        if (!invocation->command)
                return refuse_command(word);
        return is_help ? PARSED_HELP : PARSED_RUN;
}

/* The first word that names one; options do not matter here. */
static const struct command *guess_command(int argc, char **argv)
{
        const struct command *command = NULL;

        for (int i = 1; i < argc && !command; i++)
                command = find_command(argv[i]);
        return command;
}

/* The option that getopt took a word like --NAME=VALUE for, if there is one. */
static const struct option *option_of_word(const struct option *options, const char *word)
{
        size_t n = strcspn(word, "=");
        const struct option *found = NULL;

        for (; options->name; options++) {
                if (strncmp(options->name, word, n) != 0)
                        continue;
                if (!options->name[n])
                        return options;
                if (found)
                        return NULL;
                found = options;
        }
        return found;
}

static enum parsed refuse_unknown_option(int argc, char **argv, const struct option *all,
                                         const char *word)
{
        const struct command *command = guess_command(argc, argv);
        const char *words[WORDS_MAX] = {NULL}, *nearest;
        char name[NEAREST_WORD_MAX + 1];
        unsigned n = 0;

        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
        add_words(options_common, words, &n);
        add_words(command ? command->options : all, words, &n);
        nearest = nearest_word(name, words);
        (void)fprintf(stderr, "gpumemctl: unknown option \"--%s\"%s%s%s see gpumemctl help%s%s\n",
                      name, nearest ? "; did you mean \"--" : ";", nearest ? nearest : "",
                      nearest ? "\"?" : "", command ? " " : "", command ? command->name : "");
        return PARSED_WRONG;
}

/* getopt refused the word before argv[optind], or the letter optopt. */
static enum parsed refuse_word(int argc, char **argv, const struct option *all)
{
        const struct command *command = guess_command(argc, argv);
        const char *word = argv[optind - 1];
        const struct option *option;

        if (optopt) {
                (void)fprintf(stderr, "gpumemctl: unknown option \"-%c\"; see gpumemctl help\n",
                              optopt);
                return PARSED_WRONG;
        }
        option = option_of_word(all, word + 2);
        if (!option)
                return refuse_unknown_option(argc, argv, all, word + 2);
        (void)fprintf(stderr, "gpumemctl: --%s %s; see gpumemctl help%s%s\n", option->name,
                      option->has_arg ? "needs a value" : "takes no value", command ? " " : "",
                      command ? command->name : "");
        return PARSED_WRONG;
}

/* One word may have any number of letters, as -hhh. */
static void give_help(struct given_list *list)
{
        if (!find_given(list, word_help))
                list->given[list->n++] = (struct given){word_help, NULL};
}

static enum parsed read_options(int argc, char **argv, struct given_list *list)
{
        struct option all[OPTIONS_MAX];
        int id, index;

        join_all(all);
        opterr = 0;
        while ((id = getopt_long(argc, argv, "h", all, &index)) != -1) {
                if (id == 'h')
                        give_help(list);
                else if (id)
                        return refuse_word(argc, argv, all);
                else
                        list->given[list->n++] = (struct given){all[index].name, optarg};
        }
        return PARSED_RUN;
}

static enum parsed take_all(const struct given_list *list, struct invocation *invocation)
{
        const struct command *command = invocation->command;
        struct arguments *arguments = &invocation->arguments;

        *arguments = (struct arguments){
                .pool = PROTO_ALL_POOLS,
                .scope = PROTO_SCOPE_NODE,
                .answer = command->answer,
                .own = calloc(1, command->n_own_bytes + 1),
        };
        if (!arguments->own) {
                (void)fprintf(stderr, "gpumemctl: out of memory\n");
                return PARSED_WRONG;
        }
        for (unsigned i = 0; i < list->n; i++) {
                enum parsed parsed = take_option(&list->given[i], invocation);

                if (parsed != PARSED_RUN)
                        return parsed;
        }
        return PARSED_RUN;
}

static void given_list_deinit(struct given_list *list)
{
        free(list->given);
}

/* "help" is completed by the names of commands. */
static enum parsed take_listed(int argc, char **argv, const struct given_list *list,
                               struct invocation *invocation)
{
        enum parsed parsed;

        if (optind == argc || (optind + 1 == argc && strcmp(argv[optind], word_help) == 0))
                return PARSED_LIST;
        parsed = take_command(argc, argv, list, invocation);
        return parsed == PARSED_WRONG ? PARSED_WRONG : PARSED_LIST;
}

enum parsed options_parse(int argc, char **argv, struct invocation *ret_invocation)
{
        CLEANUP(given_list_deinit)
        struct given_list list = {.given = calloc((size_t)argc + 1, sizeof(*list.given))};
        enum parsed parsed;

        *ret_invocation = (struct invocation){.command = NULL};
        if (!list.given) {
                (void)fprintf(stderr, "gpumemctl: out of memory\n");
                return PARSED_WRONG;
        }
        parsed = read_options(argc, argv, &list);
        if (parsed != PARSED_RUN)
                return parsed;
        if (find_given(&list, "version"))
                return PARSED_VERSION;
        if (find_given(&list, "list-options"))
                return take_listed(argc, argv, &list, ret_invocation);
        parsed = take_command(argc, argv, &list, ret_invocation);
        if (parsed != PARSED_RUN)
                return parsed;
        if (find_given(&list, "help")) {
                /* Without a word it is asked of gpumemctl as a whole. */
                if (optind == argc)
                        ret_invocation->command = NULL;
                return PARSED_HELP;
        }
        return take_all(&list, ret_invocation);
}

void invocation_deinit(struct invocation *invocation)
{
        free(invocation->arguments.own);
}

static const struct command_value *find_value(const struct command_value *values, const char *name)
{
        for (; values && values->option; values++) {
                if (strcmp(values->option, name) == 0)
                        return values;
        }
        return NULL;
}

/* With a space in the place of each comma. */
static void print_list(const char *text)
{
        for (; *text; text++) {
                if (*text != ',')
                        (void)putchar(*text);
        }
}

static void print_value(const struct command_value *value)
{
        char columns[COLUMNS_MAX], kinds[EVENT_ROWS_KINDS_MAX];

        if (value->list) {
                filter_list_columns(value->list, columns, sizeof(columns));
                print_list(columns);
        } else if (strcmp(value->words, COMMAND_VALUE_KINDS) == 0) {
                event_rows_list_kinds(kinds);
                print_list(kinds);
        } else {
                (void)fputs(value->words, stdout);
        }
}

static void list_options(const struct option *options, const struct command_value *values)
{
        for (; options->name; options++) {
                const struct command_value *value = find_value(values, options->name);

                if (!value)
                        value = find_value(common_values, options->name);
                (void)printf("--%s%s", options->name,
                             options->has_arg == optional_argument ? "[=]"
                             : options->has_arg                    ? "="
                                                                   : "");
                if (value)
                        print_value(value);
                (void)putchar('\n');
        }
}

void options_list(const struct command *command)
{
        const struct command *one;

        for (unsigned i = 0; !command && (one = command_at(i)); i++)
                (void)puts(one->name);
        if (!command)
                (void)printf("%s\n%s\n", word_help, word_version);
        list_options(options_common, NULL);
        if (command)
                list_options(command->options, command->values);
}
