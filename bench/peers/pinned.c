/* 1 GiB of pinned memory to the first copy out of it, in a process of its own each time; gpumemd's has been
 * another process's before. */
#include <stdio.h>

#include "base/err.h"
#include "bench/peers/turns.h"

#define ORDER         "pinned 1073741824"
#define SECONDS       30
#define HUGE_PAGE_KIB 2048

/* Another process has it, and leaves it to the daemon. */
static int warm(struct comparing *comparing, double *ret_page_kib, char note[static ROW_NOTE_MAX])
{
        double numbers[RIVAL_NUMBERS_MAX];
        struct rival rival;
        int r = rival_start(RIVAL_GPUMEMD, &comparing->setup, &rival);

        if (!r)
                r = rival_ask(&rival, ORDER, SECONDS, numbers);
        if (r)
                (void)snprintf(note, ROW_NOTE_MAX, "%s", rival.note);
        else
                *ret_page_kib = numbers[1];
        rival_end(&rival);
        return r;
}

int compare_pinned(struct comparing *comparing)
{
        struct against against[] = {{RIVAL_DRIVER, "cuMemHostAlloc", 0.25},
                                    {RIVAL_TORCH, NULL, 0},
                                    {RIVAL_CUPY, NULL, 0}};
        struct turns turns = {.name = "pinned_1GiB_4KiB_pages",
                              .unit = "ns",
                              .order = ORDER,
                              .processes = TURNS_FRESH,
                              .n_turns = 3,
                              .seconds = SECONDS,
                              .limit = ROW_AT_MOST,
                              .n_against = ARRAY_SIZE(against),
                              .against = against};
        char note[ROW_NOTE_MAX];
        double page_kib = 0;

        if (comparing_ours(comparing, warm(comparing, &page_kib, note)))
                return comparing_add_note(comparing, "pinned_1GiB", "", "gpumemd", note);
        if (page_kib >= HUGE_PAGE_KIB) {
                turns.name = "pinned_1GiB_huge_pages";
                against[0].bound = 0.1;
        }
        return turns_compare(comparing, &turns);
}
