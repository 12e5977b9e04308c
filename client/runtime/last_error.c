/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runtime/last_error.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"

/* The kernel's limit. */
#define ERRNO_MAX 4095

static _Thread_local struct {
        uint64_t client;
        struct gpumem_refusal refusal;
        struct gpumem_refusal of_connect;
        int set_code;
        bool is_daemons;
        bool has_pool;
        uint32_t pool;
        char set_text[GPUMEM_TEXT_BYTES];
} last;

void last_error_set(int code, const char *text)
{
        last.set_code = code;
        last.is_daemons = false;
        (void)snprintf(last.set_text, sizeof(last.set_text), "%s", text);
}

void last_error_set_frame(int code, const struct frame *frame)
{
        if (frame->kind == MESSAGE_REFUSED)
                last_error_set(code, frame->refused.text);
        else if (frame->kind == MESSAGE_ERROR)
                last_error_set(code, frame->error.text);
        else
                return;
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
        return code && last.set_code == code ? last.set_text : gpumem_strerror(code);
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

void last_error_keep(uint64_t client, int code, const struct gpumem_request *request)
{
        last.client = client;
        last.refusal = (struct gpumem_refusal){.code = code,
                                               .kind = request->kind,
                                               .place = request->place,
                                               .n_bytes = request->n_bytes};
        (void)snprintf(last.refusal.text, sizeof(last.refusal.text), "%s", last_error_reason(code));
        last.set_code = 0;
}

void last_error_keep_of_attach(uint64_t client, int code)
{
        const struct gpumem_request none = {.kind = 0};

        last_error_keep(client, code, &none);
}

void last_error_keep_of_connect(int code)
{
        last_error_keep_of_attach(LAST_ERROR_NO_CLIENT, code);
        last.of_connect = last.refusal;
}

const char *last_error_text(void)
{
        return last.refusal.text;
}

int last_error_get(uint64_t client, struct gpumem_refusal *ret_refusal)
{
        if (last.client != client || !last.refusal.code)
                return GPUMEM_E_NO_REFUSAL;
        *ret_refusal = last.refusal;
        return 0;
}

int last_error_get_of_connect(struct gpumem_refusal *ret_refusal)
{
        if (!last.of_connect.code)
                return GPUMEM_E_NO_REFUSAL;
        *ret_refusal = last.of_connect;
        return 0;
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
