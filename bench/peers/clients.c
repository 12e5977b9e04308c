/* A lease from cache and its return, by one client and by up to 64 processes at once. */
#include <stdio.h>

#include "base/err.h"
#include "bench/peers/comparing.h"
#include "bench/timing.h"

#define CLIENTS_MAX 64

struct crowd {
        struct rival clients[CLIENTS_MAX];
        unsigned n;
        char note[ROW_NOTE_MAX];
};

static int start_all(struct comparing *comparing, struct crowd *crowd, unsigned n)
{
        int r = 0;

        for (crowd->n = 0; crowd->n < n && !r;) {
                struct rival *client = &crowd->clients[crowd->n++];

                r = rival_start(RIVAL_CLIENT, &comparing->setup, client);
                if (r)
                        (void)snprintf(crowd->note, ROW_NOTE_MAX, "%s", client->note);
        }
        return r;
}

/* The median of the clients' medians, and the highest of what 99 % of one's leases do not exceed. */
static int ask_all(struct crowd *crowd, double *ret_median, double *ret_p99)
{
        double medians[CLIENTS_MAX], most = 0;
        int r = 0;

        for (unsigned i = 0; i < crowd->n; i++)
                r = r ? r : rival_tell(&crowd->clients[i], "lease");
        for (unsigned i = 0; i < crowd->n; i++) {
                double numbers[RIVAL_NUMBERS_MAX] = {0};
                int r_one = r ? r : rival_hear(&crowd->clients[i], 30, numbers);

                if (r_one && !r)
                        (void)snprintf(crowd->note, ROW_NOTE_MAX, "%s", crowd->clients[i].note);
                r = r ? r : r_one;
                medians[i] = numbers[0];
                if (numbers[1] > most)
                        most = numbers[1];
        }
        if (!r) {
                *ret_median = median_of(medians, crowd->n);
                *ret_p99 = most;
        }
        return r;
}

static int compare(struct comparing *comparing, unsigned n, double *alone)
{
        struct crowd crowd = {.n = 0};
        struct row row = {.unit = "ns"}, tail = {.unit = "ns"};
        int r = start_all(comparing, &crowd, n);

        if (!r)
                r = ask_all(&crowd, &row.value, &tail.value);
        for (unsigned i = 0; i < crowd.n; i++)
                rival_end(&crowd.clients[i]);
        (void)snprintf(row.name, ROW_NAME_MAX, "lease_%u_clients", n);
        (void)snprintf(tail.name, ROW_NAME_MAX, "lease_%u_clients_99_percent", n);
        if (comparing_ours(comparing, r))
                return comparing_add_note(comparing, row.name, "", "gpumemd", crowd.note);
        row.baseline = *alone;
        if (n == 1)
                *alone = row.value;
        r = rows_add(comparing->rows, &row);
        return r ? r : rows_add(comparing->rows, &tail);
}

int compare_clients(struct comparing *comparing)
{
        static const unsigned counts[] = {1, 4, 16, 64};
        double alone = 0;
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(counts) && !r; i++)
                r = compare(comparing, counts[i], &alone);
        return r;
}
