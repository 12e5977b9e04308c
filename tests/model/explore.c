/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/explore.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/model/explore_heap.h"

#define N_PATH_MAX 256

struct state {
        uint32_t from;
        struct step step;
};

struct walk {
        const struct world_kind *kind;
        struct state
                *states; /* in the order in which they were found; the first one is the start */
        uint64_t n_states, n_states_max;
        uint64_t n_edges;
        struct fingerprint *seen; /* a table of open addresses */
        uint64_t n_places;
        uint32_t at;      /* the state whose steps are made */
        struct step step; /* the one that is being made */
        bool rests;       /* instead of a step */
        bool loud;
};

/* For who has to tell where an assertion failed. */
static const struct walk *current;

static unsigned find_path(const struct walk *walk, uint32_t to, struct step *path)
{
        unsigned n = 0;

        for (uint32_t at = to; at; at = walk->states[at].from)
                n++;
        assert(n <= N_PATH_MAX);
        for (unsigned i = n; i; to = walk->states[to].from)
                path[--i] = walk->states[to].step;
        return n;
}

static void tell_step(unsigned number, const struct step *step)
{
        (void)printf("#   %u. %c%u %s%s\n", number, 'A' + step->party, step->slot, step_name(step),
                     step->race ? ", which takes it back just before" : "");
}

static void tell_path(const struct walk *walk)
{
        struct step path[N_PATH_MAX];
        unsigned n = find_path(walk, walk->at, path);

        (void)printf("# %s, state %" PRIu64 ":\n", walk->kind->name, walk->n_states);
        for (unsigned i = 0; i < n; i++)
                tell_step(i + 1, &path[i]);
        if (walk->rests)
                (void)printf("#   %u. all come to rest\n", n + 1);
        else
                tell_step(n + 1, &walk->step);
        (void)fflush(stdout);
}

/* The process ends by this signal afterwards. */
static void on_abort(int number)
{
        const struct walk *walk = current;

        current = NULL;
        if (walk)
                tell_path(walk);
        (void)number;
}

static bool is_seen(struct walk *walk, struct fingerprint fingerprint)
{
        uint64_t i = fingerprint.words[0] & (walk->n_places - 1);

        for (;; i = (i + 1) & (walk->n_places - 1)) {
                if (!walk->seen[i].words[1]) {
                        walk->seen[i] = fingerprint;
                        return false;
                }
                if (!memcmp(&walk->seen[i], &fingerprint, sizeof(fingerprint)))
                        return true;
        }
}

static void note_state(struct walk *walk)
{
        struct fingerprint fingerprint = world_fingerprint();

        /* 0 is a free place. */
        fingerprint.words[1] |= 1;
        if (walk->n_states == walk->n_states_max || is_seen(walk, fingerprint))
                return;
        walk->states[walk->n_states++] = (struct state){walk->at, walk->step};
}

/* One step out of the state that is saved; and all its races. */
static const char *make_step(struct walk *walk, struct step step)
{
        unsigned n_races = 0;

        for (unsigned race = 0; race <= n_races; race++) {
                explore_heap_restore(COPY_STATE);
                step.race = (uint8_t)race;
                walk->step = step;
                world_step(&step);
                if (!race)
                        n_races = world->n_races;
                world_check();
                if (world->broken)
                        return world->broken;
                walk->n_edges++;
                note_state(walk);
        }
        return NULL;
}

static void reach(const struct walk *walk)
{
        struct step path[N_PATH_MAX];
        unsigned n = find_path(walk, walk->at, path);

        explore_heap_restore(COPY_FIRST);
        for (unsigned i = 0; i < n; i++)
                world_step(&path[i]);
        explore_heap_save(COPY_STATE);
}

static const char *expand(struct walk *walk)
{
        struct step steps[N_STEPS_MAX];
        const char *broken = NULL;
        unsigned n;

        reach(walk);
        n = world_steps(steps);
        walk->rests = true;
        world_rest();
        broken = world->broken;
        walk->rests = broken;
        for (unsigned i = 0; i < n && !broken; i++)
                broken = make_step(walk, steps[i]);
        return broken;
}

static void open_walk(struct walk *walk, uint64_t n_states_max)
{
        walk->n_states_max = n_states_max;
        walk->n_places = 1024;
        while (walk->n_places < n_states_max * 2)
                walk->n_places *= 2;
        walk->states = calloc(n_states_max, sizeof(*walk->states));
        walk->seen = calloc(walk->n_places, sizeof(*walk->seen));
        if (!walk->states || !walk->seen)
                abort();
}

static void begin(struct walk *walk)
{
        explore_heap_enter();
        explore_heap_clear();
        world_begin(walk->kind);
        explore_heap_save(COPY_FIRST);
        note_state(walk);
}

struct exploration explore(const struct world_kind *kind, uint64_t n_states_max, bool loud)
{
        struct walk walk = {.kind = kind, .loud = loud};
        struct exploration result = {.n_states = 0};
        struct step path[N_PATH_MAX];

        open_walk(&walk, n_states_max);
        current = &walk;
        (void)signal(SIGABRT, on_abort);
        begin(&walk);
        while (!result.broken && walk.at < walk.n_states) {
                result.broken = expand(&walk);
                if (result.broken && loud)
                        tell_path(&walk);
                walk.at++;
        }
        explore_heap_leave();
        current = NULL;
        result.n_states = walk.n_states;
        result.n_edges = walk.n_edges;
        result.n_steps_most = find_path(&walk, (uint32_t)walk.n_states - 1, path);
        result.complete = !result.broken && walk.n_states < n_states_max;
        free(walk.states);
        free(walk.seen);
        return result;
}
