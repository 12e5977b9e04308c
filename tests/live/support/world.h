/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of most live tests: headers and a few short names. Failures end the test. */
#pragma once

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/live/support/calls.h"
#include "tests/live/support/daemon.h"
#include "tests/live/support/links.h"
#include "tests/suite.h"

/* A process of that user's does so, and fails where `act` does. Only root becomes another user. */
void as_user(uid_t uid, void (*act)(const void *argument), const void *argument);

/* The client's last refusal of this thread. */
struct gpumem_refusal refusal_of(struct gpumem_client *client);

/* The daemon's stderr goes there, as it is this process's; what it has said so far; it has said that, or does soon. */
void log_begin(void);
const char *log_text(void);
void log_await(const char *part);

/* The part is in the text. */
void must_contain(const char *text, const char *part);
