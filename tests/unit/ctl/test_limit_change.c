/* SPDX-License-Identifier: Apache-2.0 */
/* WHO:WHAT=MAX of gpumemctl limits --set: the meaning of each text, and texts that are refused. */
#include "ctl/commands/limit_change.h"

#include <stdio.h>

#include "base/err.h"
#include "base/size.h"
#include "proto/messages.h"
#include "tests/suite.h"

#define EACH PROTO_LIMIT_OF_EACH

static const struct {
        const char *text;
        struct limit_change change;
} good[] = {
        {"client:leases=9", {PROTO_LIMIT_OF_CLIENT, EACH, PROTO_LIMIT_LEASES, 9}},
        {"client:leases=0", {PROTO_LIMIT_OF_CLIENT, EACH, PROTO_LIMIT_LEASES, 0}},
        {"client:leases=none", {PROTO_LIMIT_OF_CLIENT, EACH, PROTO_LIMIT_LEASES, PROTO_LIMIT_NONE}},
        {"tenant:device_bytes=1.5MiB",
         {PROTO_LIMIT_OF_TENANT, EACH, PROTO_LIMIT_DEVICE_BYTES, 3 * MIB / 2}},
        {"tenant:pinned_bytes=4096", {PROTO_LIMIT_OF_TENANT, EACH, PROTO_LIMIT_PINNED_BYTES, 4096}},
        {"tenant/1000:device_bytes=2GiB",
         {PROTO_LIMIT_OF_TENANT, 1000, PROTO_LIMIT_DEVICE_BYTES, 2048 * MIB}},
        {"tenant/root:leases=3", {PROTO_LIMIT_OF_TENANT, 0, PROTO_LIMIT_LEASES, 3}},
        {"tenant/0:leases=default",
         {PROTO_LIMIT_OF_TENANT, 0, PROTO_LIMIT_LEASES, PROTO_LIMIT_INHERIT}},
        {"tenant/0:pinned_bytes=default",
         {PROTO_LIMIT_OF_TENANT, 0, PROTO_LIMIT_PINNED_BYTES, PROTO_LIMIT_INHERIT}},
        {"tenant/4294967294:leases=1",
         {PROTO_LIMIT_OF_TENANT, UINT32_MAX - 1, PROTO_LIMIT_LEASES, 1}},
        {"pool/0:max_bytes=2MiB", {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, 2 * MIB}},
        {"pool/0:min_bytes=0", {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_MIN_BYTES, 0}},
        {"pool/1:max_bytes=none",
         {PROTO_LIMIT_OF_POOL, 1, PROTO_LIMIT_RESERVED_BYTES, PROTO_LIMIT_NONE}},
};

static const char *const bad[] = {
        "",
        "client",
        "client:leases",
        "client:leases=",
        ":leases=1",
        "client:=1",
        "clients:leases=1",
        "client/0:leases=1",
        "tenant/:leases=1",
        "tenant/4294967295:leases=1",
        "tenant/-1:leases=1",
        "tenant/no such user:leases=1",
        "pool:max_bytes=2MiB",
        "pool/:max_bytes=2MiB",
        "pool/x:max_bytes=2MiB",
        "pool/1x:max_bytes=2MiB",
        "pool/99999:max_bytes=2MiB",
        "pool/18446744073709551616:max_bytes=2MiB",
        "pool/0:leases=1",
        "pool/0:device_bytes=2MiB",
        "pool/0:max_bytes=default",
        "pool/0:min_bytes=none",
        "pool/0:min_bytes=default",
        "tenant:min_bytes=1GiB",
        "client:max_bytes=2MiB",
        "tenant:max_bytes=2MiB",
        "client:leases=default",
        "tenant:leases=default",
        "client:device_bytes=default",
        "client:leases=1KiB",
        "client:leases=-1",
        "client:leases=1.5",
        "client:leases=18446744073709551614",
        "client:leases=18446744073709551615",
        "client:leases=18446744073709551616",
        "client:device_bytes=big",
        "client:device_bytes=18446744073709551614",
        "client:device_bytes=NONE",
};

TEST(a_change_is_read, .to = ARRAY_SIZE(good))
{
        struct limit_change change;

        ck_assert_int_eq(limit_change_parse(good[_i].text, &change), 0);
        ck_assert_uint_eq(change.scope, good[_i].change.scope);
        ck_assert_uint_eq(change.holder, good[_i].change.holder);
        ck_assert_uint_eq(change.kind, good[_i].change.kind);
        ck_assert_uint_eq(change.max, good[_i].change.max);
}

TEST(what_is_no_change_is_refused, .to = ARRAY_SIZE(bad))
{
        struct limit_change change = {.holder = 77};

        ck_assert_int_eq(limit_change_parse(bad[_i], &change), -EINVAL);
        ck_assert_uint_eq(change.holder, 77);
}

/* A word fills the buffer, with its terminating 0. */
TEST(long_words_are_refused)
{
        struct limit_change change;
        char text[128];

        (void)snprintf(text, sizeof(text), "tenant/%063d:leases=1", 1);
        ck_assert_int_eq(limit_change_parse(text, &change), -EINVAL);
        (void)snprintf(text, sizeof(text), "tenant/%056d:leases=1", 1);
        ck_assert_int_eq(limit_change_parse(text, &change), 0);
        ck_assert_uint_eq(change.holder, 1);
        (void)snprintf(text, sizeof(text), "tenant/%057d:leases=1", 1);
        ck_assert_int_eq(limit_change_parse(text, &change), -EINVAL);
}

TESTS_MAIN("limit_change")
