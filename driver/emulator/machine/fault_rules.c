/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/machine/fault_rules.h"

#include <cuda.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define VALUE_MAX UINT64_C(10000000)
#define CALL_CHARACTERS                                        \
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" \
        "0123456789_"

static const struct {
        const char *word;
        enum { HAS_NONE, HAS_N = 1, HAS_VALUE = 2, HAS_RATE = 4 } fields;
} kinds[] = {
        [FAULT_FAIL] = {"fail", HAS_N | HAS_VALUE | HAS_RATE},
        [FAULT_DELAY] = {"delay", HAS_VALUE},
        [FAULT_HANG] = {"hang", HAS_N},
        [FAULT_LOST] = {"lost", HAS_N | HAS_VALUE},
        [FAULT_COUNT] = {"count", HAS_NONE},
        [FAULT_SEED] = {"seed", HAS_NONE},
};

static int number_read(const char *text, uint64_t *ret_number)
{
        uint64_t number;

        if (!text || *text == '\0' || strspn(text, "0123456789") != strlen(text) ||
            strlen(text) > 8)
                return -EINVAL;
        number = strtoull(text, NULL, 10);
        if (number > VALUE_MAX)
                return -EINVAL;
        *ret_number = number;
        return 0;
}

static int number_take(char **rest, uint64_t *ret_number)
{
        return number_read(strsep(rest, ":"), ret_number);
}

static int call_take(char **rest, char ret_call[static FAULT_CALL_MAX])
{
        const char *text = strsep(rest, ":");

        if (strcmp(text, "*") == 0)
                text = "";
        else if (strncmp(text, "cu", 2) != 0 || strspn(text, CALL_CHARACTERS) != strlen(text) ||
                 strlen(text) >= FAULT_CALL_MAX)
                return -EINVAL;
        memcpy(ret_call, text, strlen(text) + 1);
        return 0;
}

static int nth_take(char **rest, uint64_t *ret_nth)
{
        int r;

        if (*rest && (*rest)[0] == '*' && ((*rest)[1] == ':' || (*rest)[1] == '\0')) {
                (void)strsep(rest, ":");
                *ret_nth = 0;
                return 0;
        }
        r = number_take(rest, ret_nth);
        return !r && !*ret_nth ? -EINVAL : r;
}

static bool is_rate(const char *rest)
{
        size_t n = rest ? strcspn(rest, ":") : 0;

        return n && rest[n - 1] == '%';
}

static int rate_take(char **rest, uint64_t *ret_percent)
{
        char *text = strsep(rest, ":");
        uint64_t percent;
        int r;

        text[strlen(text) - 1] = '\0';
        r = number_read(text, &percent);
        if (r || !percent || percent > 100)
                return -EINVAL;
        *ret_percent = percent;
        return 0;
}

static int rule_read(enum fault_kind kind, char *rest, struct fault_rule *ret_rule)
{
        struct fault_rule rule = {.kind = kind};
        int r = call_take(&rest, rule.call);

        if (!r && kinds[kind].fields & HAS_RATE && is_rate(rest))
                r = rate_take(&rest, &rule.percent);
        else if (!r && kinds[kind].fields & HAS_N)
                r = nth_take(&rest, &rule.nth);
        if (kind == FAULT_LOST && !rest)
                rule.value = CUDA_ERROR_DEVICE_UNAVAILABLE;
        else if (!r && kinds[kind].fields & HAS_VALUE)
                r = number_take(&rest, &rule.value);
        if (!r && rest)
                r = -EINVAL;
        if (!r)
                *ret_rule = rule;
        return r;
}

int fault_rules_add(struct fault_rules *rules, const char *kind, const char *text)
{
        CLEANUP(freep)
        char *copy = strdup(text);
        int r;

        if (!copy)
                return -ENOMEM;
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                if (strcmp(kinds[i].word, kind) != 0)
                        continue;
                if (i == FAULT_SEED)
                        return number_read(text, &rules->seed);
                if (rules->n == FAULT_RULES_MAX)
                        return -E2BIG;
                r = rule_read((enum fault_kind)i, copy, &rules->items[rules->n]);
                if (!r)
                        rules->n++;
                return r;
        }
        return -EINVAL;
}

/* For whom the lines are that follow. */
static int process_read(char *text, uint64_t pid, bool *ret_is_ours)
{
        uint64_t number;
        int r;

        if (strcmp(text, "*") == 0) {
                *ret_is_ours = true;
                return 0;
        }
        r = number_take(&text, &number);
        if (!r && text)
                r = -EINVAL;
        if (!r)
                *ret_is_ours = number == pid;
        return r;
}

int fault_rules_read(struct fault_rules *rules, char *text, uint64_t pid, unsigned *ret_line)
{
        struct fault_rules others = {0};
        bool is_ours = true;
        char *line;

        for (unsigned number = 1; (line = strsep(&text, "\n")); number++) {
                char *value = strchr(line, '=');
                int r = -EINVAL;

                if (*line == '\0' || *line == '#')
                        continue;
                if (value) {
                        *value++ = '\0';
                        r = strcmp(line, "pid") == 0
                                    ? process_read(value, pid, &is_ours)
                                    : fault_rules_add(is_ours ? rules : &others, line, value);
                }
                if (r) {
                        *ret_line = number;
                        return r;
                }
        }
        return 0;
}

bool fault_rule_names(const struct fault_rule *rule, const char *function)
{
        size_t n = strlen(rule->call);
        const char *rest = function + n;

        if (!n)
                return true;
        if (strncmp(function, rule->call, n) != 0)
                return false;
        return *rest == '\0' ||
               (strncmp(rest, "_v", 2) == 0 && strspn(rest + 2, "0123456789") == strlen(rest + 2));
}

/* splitmix64: good enough for numbers that need not be secret. */
static uint64_t mixed(uint64_t number)
{
        number += UINT64_C(0x9e3779b97f4a7c15);
        number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
        return number ^ (number >> 31);
}

bool fault_rule_strikes(const struct fault_rules *rules, unsigned rule, uint64_t number)
{
        const struct fault_rule *item = &rules->items[rule];

        if (item->percent)
                return mixed(mixed(rules->seed * FAULT_RULES_MAX + rule) + number) % 100 <
                       item->percent;
        return !item->nth || item->nth == number;
}
