/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runtime/last_error.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "proto/refusal_text.h"

/* The kernel's limit. */
#define ERRNO_MAX 4095

/* Most refusals are tried again, or dropped: their text is made when it is asked for. */
struct reason {
        enum { REASON_OF_CODE, REASON_TEXT, REASON_FACTS } kind;
        union {
                char text[GPUMEM_TEXT_BYTES];
                struct message_refused_facts facts;
        };
};

struct kept {
        int code; /* 0: none is kept */
        enum gpumem_kind kind;
        int32_t place;
        uint64_t n_bytes;
        struct reason reason;
};

/* Few programs have more than one client, and each thread has this memory. */
#define CLIENTS_MAX 4

struct kept_of_client {
        uint64_t client; /* 0: the place is free */
        uint64_t order;  /* the higher, the later it was kept */
        struct kept refusal;
};

static _Thread_local struct {
        struct kept_of_client of_clients[CLIENTS_MAX];
        unsigned latest; /* of these */
        uint64_t n_kept; /* so far */
        struct kept of_connect;
        int set_code;
        int set_errno;
        bool is_daemons;
        bool has_pool;
        uint32_t pool;
        struct reason set;
        char made_text[GPUMEM_TEXT_BYTES];
} last;

static const char *text_of(int code, const struct reason *reason)
{
        if (reason->kind == REASON_TEXT)
                return reason->text;
        if (reason->kind == REASON_OF_CODE)
                return gpumem_strerror(code);
        refusal_text(&reason->facts, last.made_text);
        return last.made_text;
}

void last_error_set(int code, const char *text)
{
        last_error_set_errno(code, 0, text);
}

void last_error_set_errno(int code, int error, const char *text)
{
        last.set_code = code;
        last.set_errno = error;
        last.is_daemons = false;
        last.set.kind = REASON_TEXT;
        (void)snprintf(last.set.text, sizeof(last.set.text), "%s", text);
}

int last_error_errno(int code)
{
        return last.set_code == code ? last.set_errno : 0;
}

void last_error_set_frame(int code, const struct frame *frame)
{
        char text[REFUSAL_TEXT_BYTES];

        if (!refusal_code(frame))
                return;
        if (frame->kind == MESSAGE_REFUSED_FACTS) {
                last.set_code = code;
                last.set_errno = 0;
                last.set.kind = REASON_FACTS;
                last.set.facts = frame->refused_facts;
        } else {
                refusal_frame_text(frame, text);
                last_error_set(code, text);
        }
        last.is_daemons = true;
}

void last_error_clear(void)
{
        last.set_code = 0;
        last.has_pool = false;
}

void last_error_set_pool(uint32_t pool)
{
        last.pool = pool;
        last.has_pool = true;
}

uint32_t last_error_pool(void)
{
        return last.has_pool ? last.pool : LAST_ERROR_NO_POOL;
}

bool last_error_is_daemons(int code)
{
        return last.set_code == code && last.is_daemons;
}

void last_error_set_bad_setting(int code, const char *variable, const char *value,
                                const char *allowed)
{
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text), "%s: \"%.200s\" is not a valid %s", variable, value,
                       allowed);
        log_debug("%s", text);
        last_error_set(code, text);
}

const char *last_error_reason(int code)
{
        return code && last.set_code == code ? text_of(code, &last.set) : gpumem_strerror(code);
}

bool last_error_is_refusal(int code)
{
        switch (code) {
        case GPUMEM_E_REFUSED:
        case GPUMEM_E_LIMIT:
        case GPUMEM_E_TOO_LARGE:
        case GPUMEM_E_DEVICE_FULL:
        case GPUMEM_E_TIMED_OUT:
        case GPUMEM_E_TOO_MANY:
        case GPUMEM_E_DENIED:
        case GPUMEM_E_DISCONNECTED:
        case GPUMEM_E_SHUTTING_DOWN:
        case GPUMEM_E_DRIVER:
        case GPUMEM_E_STALLED:
                return true;
        default:
                return false;
        }
}

static void keep(struct kept *kept, int code, const struct gpumem_request *request)
{
        kept->code = code;
        kept->kind = request->kind;
        kept->place = request->place;
        kept->n_bytes = request->n_bytes;
        if (code && last.set_code == code)
                kept->reason = last.set;
        else
                kept->reason.kind = REASON_OF_CODE;
        last.set_code = 0;
}

static const struct kept *find(uint64_t client)
{
        for (unsigned i = 0; i < CLIENTS_MAX; i++) {
                if (last.of_clients[i].client == client)
                        return &last.of_clients[i].refusal;
        }
        return NULL;
}

/* The client's, or that of the client whose failure is the longest ago. */
static unsigned place_for(uint64_t client)
{
        unsigned oldest = 0;

        for (unsigned i = 0; i < CLIENTS_MAX; i++) {
                if (last.of_clients[i].client == client)
                        return i;
                if (last.of_clients[i].order < last.of_clients[oldest].order)
                        oldest = i;
        }
        return oldest;
}

void last_error_keep(uint64_t client, int code, const struct gpumem_request *request)
{
        struct kept_of_client *place;

        last.latest = place_for(client);
        place = &last.of_clients[last.latest];
        place->client = client;
        place->order = ++last.n_kept;
        keep(&place->refusal, code, request);
}

void last_error_keep_of_attach(uint64_t client, int code)
{
        const struct gpumem_request none = {.kind = 0};

        last_error_keep(client, code, &none);
}

void last_error_keep_of_connect(int code)
{
        const struct gpumem_request none = {.kind = 0};

        keep(&last.of_connect, code, &none);
}

const char *last_error_text(void)
{
        const struct kept *kept = &last.of_clients[last.latest].refusal;

        return text_of(kept->code, &kept->reason);
}

static int give(const struct kept *kept, struct gpumem_refusal *ret_refusal)
{
        if (!kept->code)
                return GPUMEM_E_NO_REFUSAL;
        *ret_refusal = (struct gpumem_refusal){.code = kept->code,
                                               .kind = kept->kind,
                                               .place = kept->place,
                                               .n_bytes = kept->n_bytes};
        (void)snprintf(ret_refusal->text, sizeof(ret_refusal->text), "%s",
                       text_of(kept->code, &kept->reason));
        return 0;
}

int last_error_get(uint64_t client, struct gpumem_refusal *ret_refusal)
{
        const struct kept *kept = client == LAST_ERROR_NO_CLIENT ? &last.of_connect : find(client);

        return kept ? give(kept, ret_refusal) : GPUMEM_E_NO_REFUSAL;
}

const char *gpumem_strerror(int result)
{
        const char *text;

        if (result == 0)
                return "success";
        if (result > 0)
                text = proto_error_text(result);
        else
                text = result >= -ERRNO_MAX ? strerrordesc_np(-result) : NULL;
        return text ? text : "an unknown result";
}
