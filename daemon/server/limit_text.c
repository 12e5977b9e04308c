/* Limits in words. */
#include <inttypes.h>
#include <stdio.h>

#include "base/size.h"
#include "daemon/server/limit_requests.h"

static const char *const nouns[LIMIT_N_KINDS] = {
        [LIMIT_DEVICE_BYTES] = " device memory",
        [LIMIT_PINNED_BYTES] = " pinned memory",
        [LIMIT_LEASES] = " leases",
};

static const char *amount(enum limit_kind kind, uint64_t n, char text[static SIZE_TEXT_MAX])
{
        if (kind != LIMIT_LEASES)
                return size_format(n, text);
        (void)snprintf(text, SIZE_TEXT_MAX, "%" PRIu64, n);
        return text;
}

static void name_holder(const struct session *session, enum limit_scope scope, char *text,
                        size_t n_text)
{
        if (scope == LIMIT_OF_TENANT)
                (void)snprintf(text, n_text, "tenant uid %u", (unsigned)session->peer.uid);
        else
                (void)snprintf(text, n_text, "client %d (%s)", (int)session->peer.pid,
                               session->program);
}

void limit_explain(const struct session *session, const struct order *order, char *text,
                   size_t n_text)
{
        const struct limit_hit *hit = &order->limit;
        char used[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX], asked[SIZE_TEXT_MAX];
        char holder[64];
        int length;

        name_holder(session, hit->scope, holder, sizeof(holder));
        length = snprintf(text, n_text, "%s: %s of %s%s charged; ", holder,
                          amount(hit->kind, hit->used, used), amount(hit->kind, hit->max, max),
                          nouns[hit->kind]);
        if (length < 0 || (size_t)length >= n_text)
                return;
        if (hit->why == LIMIT_IS_WAITED_FOR)
                (void)snprintf(text + length, n_text - (size_t)length, "others asked before");
        else
                (void)snprintf(
                        text + length, n_text - (size_t)length, "%s asked",
                        amount(hit->kind, hit->kind == LIMIT_LEASES ? 1 : order->n_bytes, asked));
}
