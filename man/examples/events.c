/* SPDX-License-Identifier: Apache-2.0 */
/* Reports events of the client. A limit of its own has the client refuse a request, which is one. */
#include <gpumem.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call) check((call), #call)

static const char *const kinds[] = {
        [GPUMEM_EVENT_PRESSURE] = "memory is short",
        [GPUMEM_EVENT_REFUSED] = "a request was refused",
        [GPUMEM_EVENT_REVOKED] = "idle memory was taken",
        [GPUMEM_EVENT_DAEMON_LOST] = "the daemon is away",
        [GPUMEM_EVENT_DAEMON_BACK] = "the daemon is back",
        [GPUMEM_EVENT_DEVICE_LOST] = "a device is lost",
        [GPUMEM_EVENT_DEVICE_BACK] = "a device is back",
};

static void check(int result, const char *call)
{
        if (result == 0)
                return;
        (void)fprintf(stderr, "%s: %s\n", call, gpumem_strerror(result));
        exit(EXIT_FAILURE);
}

/* Several threads may be here at once. A later library may have more kinds. */
static void on_event(const struct gpumem_event *event, void *argument)
{
        atomic_uint *n_refused = argument;
        size_t kind = event->kind;

        printf("event: %s\n", kind < sizeof(kinds) / sizeof(*kinds) ? kinds[kind] : "another");
        if (event->n_suppressed)
                printf("  and %u more since the last one\n", (unsigned)event->n_suppressed);
        if (event->kind != GPUMEM_EVENT_REFUSED)
                return;
        printf("  %llu bytes: %s\n  %s\n", (unsigned long long)event->n_bytes,
               gpumem_strerror(event->result), event->text);
        (void)atomic_fetch_add(n_refused, 1);
}

int main(void)
{
        atomic_uint n_refused = 0;
        void *memory;
        int r;

        CHECK(gpumem_set_event_callback(NULL, on_event, &n_refused));
        CHECK(gpumem_set_limit(NULL, GPUMEM_PINNED, GPUMEM_NEAREST, 4U << 20));
        r = gpumem_malloc_pinned(64U << 20, &memory);
        if (r != GPUMEM_E_LIMIT) {
                (void)fprintf(stderr, "the limit does not hold: %s\n", gpumem_strerror(r));
                return EXIT_FAILURE;
        }
        CHECK(gpumem_set_limit(NULL, GPUMEM_PINNED, GPUMEM_NEAREST, GPUMEM_NO_LIMIT));
        CHECK(gpumem_malloc_pinned(64U << 20, &memory));
        CHECK(gpumem_free(NULL, memory, NULL));

        /* After this the callback does not run any more, and its argument may end. */
        CHECK(gpumem_set_event_callback(NULL, NULL, NULL));
        printf("%u refusals were reported\n", atomic_load(&n_refused));
        return atomic_load(&n_refused) == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
