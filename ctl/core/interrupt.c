/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/core/interrupt.h"

#include <signal.h>
#include <time.h>

#include "base/clock.h"

/* A signal that comes just before a pause does not end it: so long it may go unnoticed. */
#define PAUSE_MS 100

static volatile sig_atomic_t came;

static void note(int signal)
{
        (void)signal;
        came = 1;
}

void interrupt_catch(void)
{
        struct sigaction action = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND};

        (void)sigemptyset(&action.sa_mask);
        (void)sigaction(SIGINT, &action, NULL);
        (void)sigaction(SIGTERM, &action, NULL);
}

bool interrupt_came(void)
{
        return came;
}

bool interrupt_wait_until(uint64_t ms)
{
        uint64_t now_ms;

        while (!came && (now_ms = clock_now_ms()) < ms) {
                uint64_t pause_ms = ms - now_ms < PAUSE_MS ? ms - now_ms : PAUSE_MS;
                struct timespec pause = {.tv_nsec = (long)pause_ms * 1000000L};

                (void)nanosleep(&pause, NULL);
        }
        return !came;
}
