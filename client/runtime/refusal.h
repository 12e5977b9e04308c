/* The calling thread's last refusal: what the daemon said of it is kept until the thread asks. Each
 * thread has its own, so nothing is locked. Clients are told apart by a number that is never used
 * twice, since addresses are. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "gpumem.h"
#include "proto/proto.h"

/* What the daemon answered to a request of this thread. It counts as a refusal only if the call as a
 * whole ends with it. */
void refusal_hear(int code, const char *text);

/* The same of a frame that refuses, if it does: an ERROR or a REFUSED. */
void refusal_hear_frame(int code, const struct frame *frame);

/* What this thread has heard until now is of earlier calls. */
void refusal_forget_heard(void);

/* A variable of the environment has a value that is no `allowed`. */
void refusal_hear_of_setting(int code, const char *variable, const char *value,
                             const char *allowed);

/* What this thread heard last, if it was of this code; else the text of the code. */
const char *refusal_heard(int code);

/* Is this the end of an allocation that could not be had, rather than of a call that was wrong? Only of the former
 * there is an event; the text of either is kept. */
bool refusal_is_one(int code);

/* The call ends with `code`: the text is the daemon's if it said so, or that of the code. */
void refusal_keep(uint64_t client, int code, const struct gpumem_request *request);

/* The same of a gpumem_attach: kind, place and size are not the caller's to ask for. */
void refusal_keep_of_attach(uint64_t client, int code);

/* The same of a gpumem_connect: of no client, whose number is REFUSAL_NO_CLIENT. */
#define REFUSAL_NO_CLIENT UINT64_C(0)
void refusal_keep_of_connect(int code);

/* The text of the one that was kept last. */
const char *refusal_text(void);

/* GPUMEM_E_NO_REFUSAL. ret_refusal's struct_size is the caller's concern. */
int refusal_last(uint64_t client, struct gpumem_refusal *ret_refusal);
