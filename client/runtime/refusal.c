#include "client/runtime/refusal.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"

/* The kernel's own bound. */
#define ERRNO_MAX 4095

static _Thread_local struct {
        uint64_t client;
        struct gpumem_refusal refusal;
        int heard_code;
        char heard[GPUMEM_TEXT_BYTES];
} last;

void refusal_hear(int code, const char *text)
{
        last.heard_code = code;
        (void)snprintf(last.heard, sizeof(last.heard), "%s", text);
}

void refusal_hear_frame(int code, const struct frame *frame)
{
        if (frame->kind == MESSAGE_REFUSED)
                refusal_hear(code, frame->refused.text);
        else if (frame->kind == MESSAGE_ERROR)
                refusal_hear(code, frame->error.text);
}

void refusal_forget_heard(void)
{
        last.heard_code = 0;
}

void refusal_hear_of_setting(int code, const char *variable, const char *value, const char *allowed)
{
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text), "%s: \"%.200s\" is no %s", variable, value, allowed);
        log_debug("%s", text);
        refusal_hear(code, text);
}

const char *refusal_heard(int code)
{
        return code && last.heard_code == code ? last.heard : gpumem_strerror(code);
}

bool refusal_is_one(int code)
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

void refusal_keep(uint64_t client, int code, const struct gpumem_request *request)
{
        last.client = client;
        last.refusal = (struct gpumem_refusal){.code = code,
                                               .kind = request->kind,
                                               .place = request->place,
                                               .n_bytes = request->n_bytes};
        (void)snprintf(last.refusal.text, sizeof(last.refusal.text), "%s", refusal_heard(code));
        last.heard_code = 0;
}

void refusal_keep_of_attach(uint64_t client, int code)
{
        const struct gpumem_request none = {.kind = 0};

        refusal_keep(client, code, &none);
}

void refusal_keep_of_connect(int code)
{
        refusal_keep_of_attach(REFUSAL_NO_CLIENT, code);
}

const char *refusal_text(void)
{
        return last.refusal.text;
}

int refusal_last(uint64_t client, struct gpumem_refusal *ret_refusal)
{
        if (last.client != client || !last.refusal.code)
                return GPUMEM_E_NO_REFUSAL;
        *ret_refusal = last.refusal;
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
