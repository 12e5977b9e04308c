/* SPDX-License-Identifier: Apache-2.0 */
#include "client/blocks/client_limit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "client/runtime/last_error.h"
#include "gpumem.h"

#define FRACTION_DIGITS_MAX 32

/* Accepts "1", "0.5", ".25": no sign, no exponent, whatever the locale. */
static int parse_fraction(const char *text, double *ret_fraction)
{
        double value = 0, unit = 1;
        unsigned n_digits = 0;

        for (; *text >= '0' && *text <= '9' && n_digits <= FRACTION_DIGITS_MAX; text++, n_digits++)
                value = value * 10 + (*text - '0');
        if (*text == '.') {
                for (text++; *text >= '0' && *text <= '9' && n_digits <= FRACTION_DIGITS_MAX;
                     text++, n_digits++) {
                        unit /= 10;
                        value += unit * (*text - '0');
                }
        }
        if (*text || !n_digits || !(value > 0 && value <= 1))
                return -EINVAL;
        *ret_fraction = value;
        return 0;
}

int client_limit_read_fraction(double *ret_fraction)
{
        const char *text = secure_getenv("GPUMEM_MEMORY_FRACTION");

        if (!text || !*text) {
                *ret_fraction = 1;
                return 0;
        }
        if (parse_fraction(text, ret_fraction)) {
                last_error_set_bad_setting(GPUMEM_E_BAD_FRACTION, "GPUMEM_MEMORY_FRACTION", text,
                                           "fraction; allowed: more than 0, and 1 at most: 0.5");
                return GPUMEM_E_BAD_FRACTION;
        }
        return 0;
}

uint64_t client_limit_of_fraction(double fraction, uint64_t n_bytes)
{
        return fraction < 1 ? (uint64_t)((double)n_bytes * fraction) : UINT64_MAX;
}

/* Explains the refusal in the words of the daemon's refusals. */
static void explain(const struct pool *pool, const struct client_limit *limit, uint64_t n_bytes)
{
        char used[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX], asked[SIZE_TEXT_MAX];
        const char *advice = n_bytes > limit->n_max_bytes ? "request less" : "free memory";
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text),
                       "this client's own limit: %s of %s %s memory reserved; %s asked. "
                       "To do: %s, or raise the limit (gpumem_set_limit)",
                       size_format(limit->n_leased_bytes, used),
                       size_format(limit->n_max_bytes, max),
                       pool->memory.kind == GPUMEM_DEVICE ? "device" : "pinned",
                       size_format(n_bytes, asked), advice);
        last_error_set(GPUMEM_E_LIMIT, text);
}

int client_limit_take(struct pool *pool, uint64_t n_bytes)
{
        struct client_limit limit;
        int r = 0;

        pthread_mutex_lock(&pool->lock);
        limit = pool->limit;
        if (limit.n_leased_bytes > limit.n_max_bytes ||
            n_bytes > limit.n_max_bytes - limit.n_leased_bytes)
                r = GPUMEM_E_LIMIT;
        else
                pool->limit.n_leased_bytes += n_bytes;
        pthread_mutex_unlock(&pool->lock);
        if (r)
                explain(pool, &limit, n_bytes);
        return r;
}

void client_limit_correct(struct pool *pool, uint64_t n_asked_bytes, uint64_t n_bytes)
{
        pthread_mutex_lock(&pool->lock);
        pool->limit.n_leased_bytes += n_bytes - n_asked_bytes;
        pthread_mutex_unlock(&pool->lock);
}

void client_limit_give(struct pool *pool, uint64_t n_bytes)
{
        client_limit_correct(pool, n_bytes, 0);
}

void client_limit_set(struct pool *pool, uint64_t n_max_bytes)
{
        pthread_mutex_lock(&pool->lock);
        pool->limit.n_max_bytes = n_max_bytes;
        pthread_mutex_unlock(&pool->lock);
}
