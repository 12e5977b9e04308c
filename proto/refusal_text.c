/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/refusal_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "proto/listing.h"

struct text {
        char *bytes;
        size_t length;
};

static void append(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);

static void append(struct text *text, const char *format, ...)
{
        size_t n_room = REFUSAL_TEXT_BYTES - text->length;
        va_list arguments;
        int n;

        va_start(arguments, format);
        n = vsnprintf(text->bytes + text->length, n_room, format, arguments);
        va_end(arguments);
        if (n > 0)
                text->length += (size_t)n < n_room ? (size_t)n : n_room - 1;
}

static bool is_of_limit(const struct message_refused_facts *facts)
{
        return facts->reason == PROTO_REFUSED_QUOTA;
}

/* A request above the limit itself fails even when all memory comes back. */
static bool is_beyond(const struct message_refused_facts *facts)
{
        return facts->code == GPUMEM_E_TOO_LARGE ||
               (facts->code == GPUMEM_E_LIMIT && facts->limit_kind != PROTO_LIMIT_LEASES &&
                facts->n_bytes > facts->limit_max);
}

static const char *amount(const struct message_refused_facts *facts, uint64_t n,
                          char text[static SIZE_TEXT_MAX])
{
        if (facts->limit_kind != PROTO_LIMIT_LEASES)
                return size_format(n, text);
        (void)snprintf(text, SIZE_TEXT_MAX, "%" PRIu64, n);
        return text;
}

static const char *noun_of(uint32_t limit_kind)
{
        switch (limit_kind) {
        case PROTO_LIMIT_DEVICE_BYTES:
                return " device memory";
        case PROTO_LIMIT_PINNED_BYTES:
                return " pinned memory";
        case PROTO_LIMIT_LEASES:
                return " leases";
        default:
                return "";
        }
}

static void append_limit_holder(struct text *text, const struct message_refused_facts *facts)
{
        if (facts->limit_scope == PROTO_LIMIT_OF_TENANT)
                append(text, "tenant uid %" PRIu32 "%s%s", facts->limit_holder,
                       *facts->name ? " in " : "", facts->name);
        else
                append(text, "client %" PRIu32 " (%s)", facts->limit_holder, facts->name);
}

/* Names the part that was given back but is still mapped: only the processes that map it can free it. */
static void append_limit(struct text *text, const struct message_refused_facts *facts)
{
        char used[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX], kept[SIZE_TEXT_MAX], asked[SIZE_TEXT_MAX];
        bool is_of_leases = facts->limit_kind == PROTO_LIMIT_LEASES;

        append_limit_holder(text, facts);
        append(text, ": %s of %s%s charged", amount(facts, facts->limit_used, used),
               amount(facts, facts->limit_max, max), noun_of(facts->limit_kind));
        if (facts->limit_kept)
                append(text, " (%s given back, but still mapped)",
                       amount(facts, facts->limit_kept, kept));
        if (facts->limit_is_awaited)
                append(text, "; earlier requests wait for it");
        else
                append(text, "; %s asked", amount(facts, is_of_leases ? 1 : facts->n_bytes, asked));
}

static uint64_t less(uint64_t value, uint64_t n)
{
        return value > n ? value - n : 0;
}

/* What is reserved is leased, cached or lingering. */
static uint64_t cached(const struct message_refused_facts *facts)
{
        return less(less(facts->reserved, facts->leased), facts->lingering);
}

/* Does the driver make blocks, and is it known how many? */
static bool knows_room(const struct message_refused_facts *facts)
{
        switch (facts->what) {
        case PROTO_SAYS_STALLED:
        case PROTO_SAYS_DEVICE_ERROR:
        case PROTO_SAYS_DEVICE_LOST:
                return false;
        default:
                return facts->reason != PROTO_REFUSED_DEVICE_FULL || facts->device_others;
        }
}

/* Free, cached or idle: what a request that waits a little could have, in blocks of whatever size. */
static uint64_t room(const struct message_refused_facts *facts)
{
        uint64_t idle = facts->idle < facts->leased ? facts->idle : facts->leased;
        uint64_t n = less(less(facts->max, facts->leased - idle), facts->lingering);
        uint64_t on_device = facts->device_free + cached(facts) + idle;

        return facts->device_others && on_device < n ? on_device : n;
}

/* The parts add up to what is reserved. */
static void append_pool(struct text *text, const struct message_refused_facts *facts)
{
        char reserved[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX], leased[SIZE_TEXT_MAX];
        char idle[SIZE_TEXT_MAX], size[SIZE_TEXT_MAX];

        append(text, "%s: %s of %s reserved, %s leased (%s idle", facts->name,
               size_format(facts->reserved, reserved), size_format(facts->max, max),
               size_format(facts->leased, leased), size_format(facts->idle, idle));
        if (facts->registered)
                append(text, ", %s registered: never taken", size_format(facts->registered, size));
        append(text, ")");
        if (cached(facts))
                append(text, ", %s cached", size_format(cached(facts), size));
        if (facts->lingering)
                append(text, ", %s lingering", size_format(facts->lingering, size));
        if (knows_room(facts))
                append(text, "; %s can be had", size_format(room(facts), size));
        append(text, "; %s asked", size_format(facts->n_bytes, size));
}

/* An older daemon does not say which process asked. */
static bool is_asker(const struct message_refused_facts *facts, uint32_t pid)
{
        return !is_of_limit(facts) && pid && pid == facts->limit_holder;
}

static void append_holders(struct text *text, const struct message_refused_facts *facts)
{
        const struct {
                const char *program;
                uint32_t pid;
                uint64_t n_bytes;
        } holders[] = {{facts->program_1, facts->pid_1, facts->held_1},
                       {facts->program_2, facts->pid_2, facts->held_2},
                       {facts->program_3, facts->pid_3, facts->held_3}};
        char size[SIZE_TEXT_MAX];
        const char *before = ". Held by ";

        for (unsigned i = 0; i < ARRAY_SIZE(holders) && holders[i].n_bytes; i++) {
                append(text, "%s%s (pid %" PRIu32 "%s) %s", before, holders[i].program,
                       holders[i].pid,
                       is_asker(facts, holders[i].pid) ? ", this process itself" : "",
                       size_format(holders[i].n_bytes, size));
                before = ", ";
        }
        if (facts->n_more) {
                append(text, "%s%" PRIu64 " more %s", before, facts->n_more,
                       size_format(facts->held_by_more, size));
                before = ", ";
        }
        if (facts->held_by_others)
                append(text, "%sother tenants %s", before,
                       size_format(facts->held_by_others, size));
}

/* Names an unresponsive process: it is stopped or hangs, and its memory comes back only when it runs on or ends. */
static void append_late(struct text *text, const struct message_refused_facts *facts)
{
        char size[SIZE_TEXT_MAX];

        if (facts->used_1)
                append(text, ", %s of it by %s (pid %" PRIu32 "), which does not answer",
                       size_format(facts->used_1, size), facts->user_program_1, facts->user_1);
        else
                append(text, " by a process that does not answer");
}

/* Who else uses memory of the device, as far as that is known. */
static void append_users(struct text *text, const struct message_refused_facts *facts)
{
        char free[SIZE_TEXT_MAX], size[SIZE_TEXT_MAX];

        if (!facts->device_others)
                return;
        append(text, ", %s free, %s not gpumemd's", size_format(facts->device_free, free),
               size_format(facts->device_others, size));
        if (*facts->user_program_1)
                append(text, ": %s (pid %" PRIu32 ") %s", facts->user_program_1, facts->user_1,
                       size_format(facts->used_1, size));
        if (*facts->user_program_2)
                append(text, ", %s (pid %" PRIu32 ") %s", facts->user_program_2, facts->user_2,
                       size_format(facts->used_2, size));
}

static const char *name_of(uint32_t reason)
{
        static const char *const names[] = {
                [PROTO_REFUSED_QUOTA] = "a limit",
                [PROTO_REFUSED_POOL_FULL] = "the pool is full",
                [PROTO_REFUSED_DEVICE_FULL] = "the driver has not enough memory",
                [PROTO_REFUSED_LINGERING] = "revoked memory is still mapped",
                [PROTO_REFUSED_IDLE] = "this request may not take the idle memory, or not yet",
                [PROTO_REFUSED_FRAGMENTATION] = "free memory is inside blocks that processes hold",
        };

        return names[reason];
}

/* Against a full pool. A process cannot wait for what it holds itself. */
static const char *advice_for_full(const struct message_refused_facts *facts)
{
        bool is_alone = !facts->held_2 && !facts->n_more && !facts->held_by_others;

        if (is_asker(facts, facts->pid_1))
                return is_alone ? "free memory first, or request less"
                                : "free memory first, wait (wait_ms), or end another holder";
        if (facts->code == GPUMEM_E_TIMED_OUT)
                return "wait longer (wait_ms), free memory, or end a holder";
        return NULL;
}

static const char *advice_for(const struct message_refused_facts *facts)
{
        static const char *const advice[] = {
                [PROTO_REFUSED_QUOTA] = "free memory, or have the limit raised (gpumemctl limits)",
                [PROTO_REFUSED_POOL_FULL] = "wait (wait_ms), free memory, or end a holder",
                [PROTO_REFUSED_DEVICE_FULL] =
                        ("see what else is on the device (nvidia-smi), request less, or give the "
                         "pool a max_bytes"),
                [PROTO_REFUSED_LINGERING] = "wait (wait_ms): it comes back when unmapped",
                [PROTO_REFUSED_IDLE] =
                        "wait (wait_ms): idle memory is taken only for requests that wait",
                [PROTO_REFUSED_FRAGMENTATION] =
                        "request smaller sizes, or have a holder empty a block, or gpumem_flush",
        };

        if (facts->what == PROTO_SAYS_LATE)
                return "continue or end the process that does not answer";
        if (is_of_limit(facts) && facts->limit_kept)
                return "gpumem_flush where it is registered, free memory, or have the limit raised "
                       "(gpumemctl limits)";
        if (facts->reason == PROTO_REFUSED_POOL_FULL && advice_for_full(facts))
                return advice_for_full(facts);
        if (facts->reason == PROTO_REFUSED_LINGERING && facts->code == GPUMEM_E_TIMED_OUT)
                return "wait longer (wait_ms): it comes back when unmapped";
        if (facts->reason == PROTO_REFUSED_DEVICE_FULL && *facts->user_program_1)
                return "end that process, request less, or give the pool a max_bytes";
        return advice[facts->reason];
}

static void append_beyond(struct text *text, const struct message_refused_facts *facts)
{
        char max[SIZE_TEXT_MAX];

        append(text,
               ", more than this %s may ever hold (%s). To do: request less, or have the "
               "limit raised (gpumemctl limits)",
               !is_of_limit(facts)                           ? "pool"
               : facts->limit_scope == PROTO_LIMIT_OF_TENANT ? "tenant"
                                                             : "client",
               size_format(is_of_limit(facts) ? facts->limit_max : facts->max, max));
}

/* A reason that a later daemon gives is not explained. */
static void append_reason(struct text *text, const struct message_refused_facts *facts)
{
        if (is_beyond(facts)) {
                append_beyond(text, facts);
                return;
        }
        if (facts->reason == PROTO_REFUSED_OTHERWISE || facts->reason >= PROTO_REFUSED_N)
                return;
        if (!is_of_limit(facts))
                append(text, ": %s", name_of(facts->reason));
        if (facts->what == PROTO_SAYS_LATE)
                append_late(text, facts);
        else if (facts->reason == PROTO_REFUSED_DEVICE_FULL)
                append_users(text, facts);
        if (!is_of_limit(facts) || facts->limit_scope == PROTO_LIMIT_OF_TENANT)
                append_holders(text, facts);
        append(text, ". To do: %s", advice_for(facts));
}

/* What is behind the figures of the pool or the limit. */
static void append_rest(struct text *text, const struct message_refused_facts *facts)
{
        switch (facts->what) {
        case PROTO_SAYS_BLOCKS:
                append(text,
                       ": too many blocks: %" PRIu64
                       " exist in all pools; gpumemd has file descriptors for %" PRIu64
                       " and keeps some for other tenants. To do: free memory, or raise "
                       "LimitNOFILE (ulimit -n) of gpumemd",
                       facts->count, facts->count_max);
                break;
        case PROTO_SAYS_STALLED:
                append(text,
                       ": the driver has not answered for %" PRIu64
                       " s. To do: retry later, or wait (wait_ms); cached blocks are served",
                       facts->count);
                break;
        case PROTO_SAYS_DEVICE_ERROR:
                append(text,
                       ": the device is in error, NVML says: %s. No blocks are created there until "
                       "it recovers",
                       listed_device_text(facts->device));
                break;
        case PROTO_SAYS_DEVICE_LOST:
                append(text, ": the device is lost, the driver says. Requests are refused until it "
                             "recovers");
                break;
        case PROTO_SAYS_DEADLOCK:
                append(text, ": every process that holds this memory waits for more, so none frees "
                             "any; this request came last, and fails before its deadline");
                append_holders(text, facts);
                append(text, ". To do: free memory before waiting, or gpumem_reserve all at once");
                break;
        default:
                append_reason(text, facts);
                break;
        }
}

void refusal_text(const struct message_refused_facts *facts,
                  char ret_text[static REFUSAL_TEXT_BYTES])
{
        struct text text = {ret_text, 0};

        ret_text[0] = '\0';
        switch (facts->what) {
        case PROTO_SAYS_UNKNOWN:
                append(&text, "the client maps no block that it may lease again");
                break;
        case PROTO_SAYS_UNCACHED:
                append(&text, "no cached block serves the request");
                break;
        case PROTO_SAYS_SHUTDOWN:
                append(&text,
                       "gpumemd is shutting down and leases nothing more; it waits up to %" PRIu64
                       " s for held memory. Memory that you hold stays valid. To do: retry when "
                       "the next gpumemd runs",
                       facts->count);
                break;
        case PROTO_SAYS_NO_POOL:
                append(&text, "unknown pool %" PRIu32 " (valid: 0-%" PRIu64 ")", facts->pool,
                       facts->count ? facts->count - 1 : 0);
                break;
        default:
                if (is_of_limit(facts))
                        append_limit(&text, facts);
                else
                        append_pool(&text, facts);
                append_rest(&text, facts);
                break;
        }
}

int refusal_code(const struct frame *frame)
{
        switch (frame->kind) {
        case MESSAGE_ERROR:
                return (int)frame->error.code;
        case MESSAGE_REFUSED:
                return (int)frame->refused.code;
        case MESSAGE_REFUSED_FACTS:
                return (int)frame->refused_facts.code;
        default:
                return 0;
        }
}

void refusal_frame_text(const struct frame *frame, char ret_text[static REFUSAL_TEXT_BYTES])
{
        const char *text = frame->kind == MESSAGE_ERROR     ? frame->error.text
                           : frame->kind == MESSAGE_REFUSED ? frame->refused.text
                                                            : "";

        if (frame->kind == MESSAGE_REFUSED_FACTS)
                refusal_text(&frame->refused_facts, ret_text);
        else
                (void)snprintf(ret_text, REFUSAL_TEXT_BYTES, "%s", text);
}
