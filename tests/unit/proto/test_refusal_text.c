/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a refused LEASE, of each kind, and of facts that no daemon would send. */
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "proto/refusal_text.h"
#include "tests/suite.h"

#define POOL                                                                                  \
        "a GPU: 30.00 MiB of 32.00 MiB reserved, 28.00 MiB leased (2.00 MiB idle), 1.00 MiB " \
        "cached, 1.00 MiB lingering; "
#define ASKED    POOL "5.00 MiB can be had; 4.00 MiB asked"
#define OF_OTHER POOL "4.00 MiB asked" /* where the driver makes nothing */
#define HELD                                                                                 \
        ". Held by large (pid 7) 16.00 MiB, small (pid 8) 4.00 MiB, 2 more 6.00 MiB, other " \
        "tenants 10.00 MiB"

static struct message_refused_facts facts_of(enum gpumem_error code, enum proto_refused reason)
{
        return (struct message_refused_facts){
                .code = code,
                .reason = reason,
                .n_bytes = 4 * MIB,
                .name = "a GPU",
                .max = 32 * MIB,
                .reserved = 30 * MIB,
                .leased = 28 * MIB,
                .idle = 2 * MIB,
                .lingering = MIB,
                .held_1 = 16 * MIB,
                .pid_1 = 7,
                .program_1 = "large",
                .held_2 = 4 * MIB,
                .pid_2 = 8,
                .program_2 = "small",
                .n_more = 2,
                .held_by_more = 6 * MIB,
                .held_by_others = 10 * MIB,
        };
}

static struct message_refused_facts facts_of_limit(uint32_t scope, uint32_t kind)
{
        return (struct message_refused_facts){
                .code = GPUMEM_E_LIMIT,
                .reason = PROTO_REFUSED_QUOTA,
                .n_bytes = 4 * MIB,
                .limit_scope = scope,
                .limit_kind = kind,
                .limit_holder = 1000,
                .limit_used = kind == PROTO_LIMIT_LEASES ? 5 : 8 * MIB,
                .limit_max = kind == PROTO_LIMIT_LEASES ? 5 : 9 * MIB,
                .held_1 = MIB,
                .pid_1 = 7,
                .program_1 = "large",
        };
}

static void must_be(const struct message_refused_facts *facts, const char *text)
{
        char made[REFUSAL_TEXT_BYTES];

        memset(made, 'x', sizeof(made));
        refusal_text(facts, made);
        ck_assert_str_eq(made, text);
}

TEST(a_lack_of_memory_names_reason_holders_and_advice)
{
        static const struct {
                enum proto_refused reason;
                const char *text;
        } reasons[] = {
                {PROTO_REFUSED_POOL_FULL, ASKED
                 ": the pool is full" HELD ". To do: wait (wait_ms), free memory, or end a holder"},
                {PROTO_REFUSED_LINGERING,
                 ASKED ": revoked memory is still mapped" HELD
                       ". To do: wait (wait_ms): it comes back when unmapped"},
                {PROTO_REFUSED_IDLE,
                 ASKED ": this request may not take the idle memory, or not yet" HELD
                       ". To do: wait (wait_ms): idle memory is taken only for requests that wait"},
                {PROTO_REFUSED_FRAGMENTATION,
                 ASKED ": free memory is inside blocks that processes hold" HELD
                       ". To do: request smaller sizes, or have a holder empty a block, or "
                       "gpumem_flush"},
                {PROTO_REFUSED_DEVICE_FULL,
                 OF_OTHER ": the driver has not enough memory" HELD
                          ". To do: see what else is on the device (nvidia-smi), request less, or "
                          "give the pool a max_bytes"},
                {PROTO_REFUSED_OTHERWISE, ASKED},
        };

        for (unsigned i = 0; i < ARRAY_SIZE(reasons); i++) {
                struct message_refused_facts facts = facts_of(GPUMEM_E_REFUSED, reasons[i].reason);

                must_be(&facts, reasons[i].text);
        }
}

TEST(a_process_is_not_told_to_end_itself_nor_to_wait_longer_than_not_at_all)
{
        struct message_refused_facts facts = facts_of(GPUMEM_E_TIMED_OUT, PROTO_REFUSED_POOL_FULL);

        must_be(&facts, ASKED ": the pool is full" HELD
                              ". To do: wait longer (wait_ms), free memory, or end a holder");
        facts.limit_holder = 7;
        must_be(&facts, ASKED ": the pool is full. Held by large (pid 7, this process itself) "
                              "16.00 MiB, small (pid 8) 4.00 MiB, 2 more 6.00 MiB, other tenants "
                              "10.00 MiB. To do: free memory first, wait (wait_ms), or end "
                              "another holder");
        facts.held_2 = facts.n_more = facts.held_by_others = 0;
        must_be(&facts, ASKED ": the pool is full. Held by large (pid 7, this process itself) "
                              "16.00 MiB. To do: free memory first, or request less");
}

TEST(what_is_0_is_left_out)
{
        struct message_refused_facts facts = facts_of(GPUMEM_E_REFUSED, PROTO_REFUSED_OTHERWISE);

        facts.leased = facts.reserved;
        facts.lingering = 0;
        must_be(&facts, "a GPU: 30.00 MiB of 32.00 MiB reserved, 30.00 MiB leased (2.00 MiB idle); "
                        "4.00 MiB can be had; 4.00 MiB asked");
}

TEST(registered_memory_is_told_if_there_is_any)
{
        struct message_refused_facts facts = facts_of(GPUMEM_E_TOO_MANY, PROTO_REFUSED_OTHERWISE);

        facts.registered = 2 * MIB;
        must_be(&facts, "a GPU: 30.00 MiB of 32.00 MiB reserved, 28.00 MiB leased (2.00 MiB idle, "
                        "2.00 MiB registered: never taken), 1.00 MiB cached, 1.00 MiB lingering; "
                        "5.00 MiB can be had; 4.00 MiB asked");
}

TEST(a_process_that_does_not_unmap_is_named_if_it_may_be)
{
        struct message_refused_facts facts = facts_of(GPUMEM_E_TIMED_OUT, PROTO_REFUSED_LINGERING);

        facts.what = PROTO_SAYS_LATE;
        must_be(&facts,
                ASKED ": revoked memory is still mapped by a process that does not answer" HELD
                      ". To do: continue or end the process that does not answer");
        facts.used_1 = 3 * MIB;
        facts.user_1 = 9;
        memcpy(facts.user_program_1, "slow", sizeof("slow"));
        must_be(&facts, ASKED ": revoked memory is still mapped, 3.00 MiB of it by slow (pid 9), "
                              "which does not answer" HELD
                              ". To do: continue or end the process that does not answer");
}

TEST(others_on_a_full_device_are_named_if_they_may_be)
{
        struct message_refused_facts facts = facts_of(GPUMEM_E_DEVICE_FULL,
                                                      PROTO_REFUSED_DEVICE_FULL);

        facts.held_1 = facts.held_2 = facts.n_more = facts.held_by_others = 0;
        facts.device_free = MIB;
        facts.device_others = 6 * MIB;
        must_be(&facts,
                POOL "4.00 MiB can be had; 4.00 MiB asked: the driver has not enough memory, "
                     "1.00 MiB free, 6.00 MiB not gpumemd's. To do: see what else is on the "
                     "device (nvidia-smi), request less, or give the pool a max_bytes");
        facts.user_1 = 10;
        facts.used_1 = 4 * MIB;
        memcpy(facts.user_program_1, "X", sizeof("X"));
        facts.user_2 = 11;
        facts.used_2 = 2 * MIB;
        memcpy(facts.user_program_2, "Y", sizeof("Y"));
        must_be(&facts,
                POOL "4.00 MiB can be had; 4.00 MiB asked: the driver has not enough memory, "
                     "1.00 MiB free, 6.00 MiB not gpumemd's: X (pid 10) 4.00 MiB, Y (pid "
                     "11) 2.00 MiB. To do: end that process, request less, or give the "
                     "pool a max_bytes");
}

TEST(a_limit_says_whose_it_is_and_what_it_limits)
{
        struct message_refused_facts facts = facts_of_limit(PROTO_LIMIT_OF_CLIENT,
                                                            PROTO_LIMIT_PINNED_BYTES);

        memcpy(facts.name, "mine", sizeof("mine"));
        must_be(&facts, "client 1000 (mine): 8.00 MiB of 9.00 MiB pinned memory charged; 4.00 MiB "
                        "asked. To do: free memory, or have the limit raised (gpumemctl limits)");
        facts = facts_of_limit(PROTO_LIMIT_OF_TENANT, PROTO_LIMIT_LEASES);
        must_be(&facts,
                "tenant uid 1000: 5 of 5 leases charged; 1 asked. Held by large (pid 7) "
                "1.00 MiB. To do: free memory, or have the limit raised (gpumemctl limits)");
        facts = facts_of_limit(PROTO_LIMIT_OF_TENANT, PROTO_LIMIT_DEVICE_BYTES);
        memcpy(facts.name, "a-pod", sizeof("a-pod"));
        facts.limit_kept = 2 * MIB;
        facts.limit_is_awaited = 1;
        must_be(&facts,
                "tenant uid 1000 in a-pod: 8.00 MiB of 9.00 MiB device memory charged (2.00 MiB "
                "given back, but still mapped); earlier requests wait for it. Held by large (pid "
                "7) 1.00 MiB. To do: gpumem_flush where it is registered, free memory, or have "
                "the limit raised (gpumemctl limits)");
}

/* Where all memory would not be enough, holders are of no interest. */
TEST(what_exceeds_the_limit_itself_is_told_as_such)
{
        static const char to_do[] = ". To do: request less, or have the limit raised (gpumemctl "
                                    "limits)";
        struct message_refused_facts facts = facts_of(GPUMEM_E_TOO_LARGE, PROTO_REFUSED_OTHERWISE);
        char text[REFUSAL_TEXT_BYTES];

        (void)snprintf(text, sizeof(text), "%s, more than this pool may ever hold (32.00 MiB)%s",
                       ASKED, to_do);
        must_be(&facts, text);
        facts = facts_of_limit(PROTO_LIMIT_OF_TENANT, PROTO_LIMIT_DEVICE_BYTES);
        facts.n_bytes = 10 * MIB;
        (void)snprintf(text, sizeof(text),
                       "tenant uid 1000: 8.00 MiB of 9.00 MiB device memory charged; 10.00 MiB "
                       "asked, more than this tenant may ever hold (9.00 MiB)%s",
                       to_do);
        must_be(&facts, text);
}

TEST(what_is_no_lack_of_memory_is_told)
{
        static const struct {
                enum proto_refused_what what;
                const char *text;
        } cases[] = {
                {PROTO_SAYS_UNKNOWN, "the client maps no block that it may lease again"},
                {PROTO_SAYS_UNCACHED, "no cached block serves the request"},
                {PROTO_SAYS_SHUTDOWN,
                 "gpumemd is shutting down and leases nothing more; it waits up to 3 s for held "
                 "memory. Memory that you hold stays valid. To do: retry when the next gpumemd "
                 "runs"},
                {PROTO_SAYS_NO_POOL, "unknown pool 0 (valid: 0-2)"},
                {PROTO_SAYS_BLOCKS,
                 ASKED ": too many blocks: 3 exist in all pools; gpumemd has file descriptors for "
                       "4 and keeps some for other tenants. To do: free memory, or raise "
                       "LimitNOFILE (ulimit -n) of gpumemd"},
                {PROTO_SAYS_STALLED, OF_OTHER ": the driver has not answered for 3 s. To do: retry "
                                              "later, or wait (wait_ms); cached blocks are served"},
                {PROTO_SAYS_DEVICE_ERROR, OF_OTHER
                 ": the device is in error, NVML says: needs a reset. No blocks are created "
                 "there until it recovers"},
                {PROTO_SAYS_DEVICE_LOST, OF_OTHER ": the device is lost, the driver says. Requests "
                                                  "are refused until it recovers"},
                {PROTO_SAYS_DEADLOCK,
                 ASKED ": every process that holds this memory waits for more, so none frees any; "
                       "this request came last, and fails before its deadline" HELD
                       ". To do: free memory before waiting, or gpumem_reserve all at once"},
        };

        for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
                struct message_refused_facts facts = facts_of(GPUMEM_E_DRIVER,
                                                              PROTO_REFUSED_POOL_FULL);
                char text[REFUSAL_TEXT_BYTES];

                facts.what = cases[i].what;
                facts.count = 3;
                facts.count_max = 4;
                facts.device = PROTO_DEVICE_NEEDS_RESET;
                (void)snprintf(text, sizeof(text), "%s", cases[i].text);
                must_be(&facts, text);
        }
}

/* What a later daemon says, which this library does not know. */
TEST(an_unknown_reason_leaves_the_figures)
{
        struct message_refused_facts facts = facts_of(GPUMEM_E_REFUSED, PROTO_REFUSED_N);

        must_be(&facts, ASKED);
        facts.what = PROTO_SAYS_LATE + 1;
        must_be(&facts, ASKED);
        facts.what = UINT32_MAX;
        facts.reason = UINT32_MAX;
        must_be(&facts, ASKED);
        facts.what = PROTO_SAYS_DEVICE_ERROR;
        facts.device = UINT32_MAX;
        must_be(&facts,
                OF_OTHER ": the device is in error, NVML says: unknown. No blocks are created "
                         "there until it recovers");
}

/* All numbers as large as they can be, all names as long. */
TEST(a_text_that_is_too_long_is_cut)
{
        static const char *const limits[] = {"tenant uid 4294967295 in ", "client 4294967295 ("};
        char guarded[REFUSAL_TEXT_BYTES + 1];
        struct message_refused_facts facts;

        memset(&facts, 0xff, sizeof(facts));
        memset(facts.name, 'n', sizeof(facts.name) - 1);
        memset(facts.program_1, 'p', sizeof(facts.program_1) - 1);
        facts.name[sizeof(facts.name) - 1] = '\0';
        facts.program_1[sizeof(facts.program_1) - 1] = '\0';
        memcpy(facts.program_2, facts.program_1, sizeof(facts.program_1));
        memcpy(facts.program_3, facts.program_1, sizeof(facts.program_1));
        memcpy(facts.user_program_1, facts.program_1, sizeof(facts.program_1));
        memcpy(facts.user_program_2, facts.program_1, sizeof(facts.program_1));
        guarded[REFUSAL_TEXT_BYTES] = 'x';
        for (uint32_t reason = 0; reason <= PROTO_REFUSED_N; reason++) {
                for (uint32_t what = 0; what <= PROTO_SAYS_LATE + 1; what++) {
                        facts.reason = reason;
                        facts.what = what;
                        refusal_text(&facts, guarded);
                        ck_assert_uint_lt(strlen(guarded), REFUSAL_TEXT_BYTES);
                        ck_assert_int_eq(guarded[REFUSAL_TEXT_BYTES], 'x');
                }
        }
        facts.reason = PROTO_REFUSED_QUOTA;
        facts.what = PROTO_SAYS_DEADLOCK;
        for (unsigned i = 0; i < ARRAY_SIZE(limits); i++) {
                facts.limit_scope = i ? PROTO_LIMIT_OF_CLIENT : PROTO_LIMIT_OF_TENANT;
                refusal_text(&facts, guarded);
                ck_assert_uint_eq(strlen(guarded), REFUSAL_TEXT_BYTES - 1);
                ck_assert_int_eq(strncmp(guarded, limits[i], strlen(limits[i])), 0);
        }
}

TEST(each_frame_that_refuses_has_a_code_and_a_text)
{
        struct frame frame = FRAME_NULL;
        char text[REFUSAL_TEXT_BYTES];

        frame.refused_facts = facts_of(GPUMEM_E_REFUSED, PROTO_REFUSED_OTHERWISE);
        proto_seal(&frame, MESSAGE_REFUSED_FACTS, 1, 0);
        ck_assert_int_eq(refusal_code(&frame), GPUMEM_E_REFUSED);
        refusal_frame_text(&frame, text);
        ck_assert_str_eq(text, ASKED);
        frame.refused = (struct message_refused){.code = GPUMEM_E_LIMIT, .text = "a limit"};
        proto_seal(&frame, MESSAGE_REFUSED, 1, 0);
        ck_assert_int_eq(refusal_code(&frame), GPUMEM_E_LIMIT);
        refusal_frame_text(&frame, text);
        ck_assert_str_eq(text, "a limit");
        frame.error = (struct message_error){.code = GPUMEM_E_DENIED, .text = "no"};
        proto_seal(&frame, MESSAGE_ERROR, 1, 0);
        ck_assert_int_eq(refusal_code(&frame), GPUMEM_E_DENIED);
        refusal_frame_text(&frame, text);
        ck_assert_str_eq(text, "no");
        proto_seal(&frame, MESSAGE_LEASED, 1, 1);
        ck_assert_int_eq(refusal_code(&frame), 0);
        refusal_frame_text(&frame, text);
        ck_assert_str_eq(text, "");
}

TESTS_MAIN("refusal_text")
