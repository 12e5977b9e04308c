/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#if HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

void notify_ready(const char *status)
{
        (void)sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void notify_stopping(void)
{
        (void)sd_notify(0, "STOPPING=1\nSTATUS=returning memory to the driver");
}

/* Extends systemd's timeout: gpumemd has its own limits for each of these steps. */
void notify_status(const char *status)
{
        (void)sd_notifyf(0, "STATUS=%s\nEXTEND_TIMEOUT_USEC=15000000", status);
}

uint64_t notify_alive_ms(void)
{
        uint64_t period_us;

        if (sd_watchdog_enabled(0, &period_us) <= 0)
                return 0;
        return period_us < 4000 ? 1 : period_us / 2000;
}

void notify_alive(void)
{
        (void)sd_notify(0, "WATCHDOG=1");
}
#else
void notify_ready(const char *status)
{
        (void)status;
}

void notify_stopping(void)
{
}

void notify_status(const char *status)
{
        (void)status;
}

uint64_t notify_alive_ms(void)
{
        return 0;
}

void notify_alive(void)
{
}
#endif
