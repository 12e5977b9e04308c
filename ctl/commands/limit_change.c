/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/commands/limit_change.h"

#include <stdbool.h>
#include <string.h>

#include "base/size.h"
#include "ctl/output/parse.h"
#include "proto/listing.h"
#include "proto/messages.h"

#define WORD_MAX 64

/* What a pool is limited in, and what clients and tenants are. */
#define LIMITS_OF_POOL \
        "max_bytes, min_bytes, keep_cached_bytes, keep_free_bytes, return_after_seconds"
#define LIMITS_OF_OTHERS "device_bytes, pinned_bytes, leases"

static int wrong(const char *part, const char *expected)
{
        return parse_refuse("--set", part, expected);
}

static int parse_who(const char *text, struct limit_change *change)
{
        uint64_t pool;

        change->holder = PROTO_LIMIT_OF_EACH;
        if (strcmp(text, "client") == 0) {
                change->scope = PROTO_LIMIT_OF_CLIENT;
                return 0;
        }
        if (strcmp(text, "tenant") == 0) {
                change->scope = PROTO_LIMIT_OF_TENANT;
                return 0;
        }
        if (strncmp(text, "tenant/", 7) == 0) {
                change->scope = PROTO_LIMIT_OF_TENANT;
                return parse_user(text + 7, &change->holder)
                               ? wrong(text + 7, "a uid or a user name")
                               : 0;
        }
        if (strncmp(text, "pool/", 5) == 0 && parse_number(text + 5, &pool) == 0 &&
            pool < PROTO_POOLS_MAX) {
                change->scope = PROTO_LIMIT_OF_POOL;
                change->holder = (uint32_t)pool;
                return 0;
        }
        return wrong(text, "client, tenant, tenant/USER, pool/ID");
}

static int parse_what(const char *text, struct limit_change *change)
{
        bool of_pool = change->scope == PROTO_LIMIT_OF_POOL;

        for (uint32_t kind = PROTO_LIMIT_DEVICE_BYTES; kind <= PROTO_LIMIT_RETURN_SECONDS; kind++) {
                if (strcmp(text, limit_kind_name(kind)) == 0 &&
                    of_pool == (kind >= PROTO_LIMIT_RESERVED_BYTES)) {
                        change->kind = kind;
                        return 0;
                }
        }
        return wrong(text, of_pool ? LIMITS_OF_POOL : LIMITS_OF_OTHERS);
}

static int parse_max(const char *text, struct limit_change *change)
{
        bool has_default = change->scope == PROTO_LIMIT_OF_TENANT &&
                           change->holder != PROTO_LIMIT_OF_EACH;

        if (strcmp(text, "none") == 0 && change->kind < PROTO_LIMIT_MIN_BYTES) {
                change->max = PROTO_LIMIT_NONE;
                return 0;
        }
        if (has_default && strcmp(text, "default") == 0) {
                change->max = PROTO_LIMIT_INHERIT;
                return 0;
        }
        if (change->kind == PROTO_LIMIT_LEASES) {
                if (parse_number(text, &change->max) == 0 && change->max < PROTO_LIMIT_INHERIT)
                        return 0;
                return wrong(text, has_default ? "a number of leases, none or default"
                                               : "a number of leases or none");
        }
        if (change->kind == PROTO_LIMIT_RETURN_SECONDS)
                return parse_number(text, &change->max) == 0 && change->max < PROTO_LIMIT_INHERIT
                               ? 0
                               : wrong(text, "a number of seconds");
        if (size_parse(text, &change->max) == 0 && change->max < PROTO_LIMIT_INHERIT)
                return 0;
        if (change->kind >= PROTO_LIMIT_MIN_BYTES)
                return wrong(text, "a size such as 12GiB or 0");
        return wrong(text, has_default ? "a size such as 12GiB, none or default"
                                       : "a size such as 12GiB or none");
}

/* Cuts `text` at the first `mark`: what stands before it goes to `word`. */
static const char *cut(const char *text, char mark, char word[static WORD_MAX])
{
        const char *end = strchr(text, mark);

        if (!end || end == text || end - text >= WORD_MAX)
                return NULL;
        memcpy(word, text, (size_t)(end - text));
        word[end - text] = '\0';
        return end + 1;
}

int limit_change_parse(const char *text, struct limit_change *ret_change)
{
        struct limit_change change = {.scope = 0};
        char who[WORD_MAX], what[WORD_MAX];
        const char *rest, *max;
        int r;

        rest = cut(text, ':', who);
        max = rest ? cut(rest, '=', what) : NULL;
        if (!max || !*max)
                return wrong(text,
                             "WHO:WHAT=N, such as client:leases=100; see gpumemctl help limits");
        r = parse_who(who, &change);
        if (!r)
                r = parse_what(what, &change);
        if (!r)
                r = parse_max(max, &change);
        if (!r)
                *ret_change = change;
        return r;
}
