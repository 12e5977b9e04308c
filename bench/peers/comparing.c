#include "bench/peers/comparing.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/timing.h"

void comparing_name(const char *name, const char *peer, struct row *row)
{
        (void)snprintf(row->name, ROW_NAME_MAX, "%s%s%s", name, *peer ? "_beside_" : "", peer);
}

int comparing_add_note(struct comparing *comparing, const char *name, const char *peer,
                       const char *whose, const char *note)
{
        struct row row = {.unit = ""};

        comparing_name(name, peer, &row);
        (void)snprintf(row.note, ROW_NOTE_MAX, "%.20s: %.72s", whose, note);
        return rows_add(comparing->rows, &row);
}

int comparing_ours(struct comparing *comparing, int r)
{
        if (r && !comparing->r_ours && clock_now_ns() < comparing->setup.deadline_ns)
                comparing->r_ours = r;
        return r;
}

void comparing_clear(struct comparing *comparing)
{
        double numbers[RIVAL_NUMBERS_MAX];
        struct rival rival;

        if (!rival_start(RIVAL_GPUMEMD, &comparing->setup, &rival))
                (void)rival_ask(&rival, "clear", 20, numbers);
        rival_end(&rival);
}
