/* SPDX-License-Identifier: Apache-2.0 */
#include "client/watch/debug.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/table.h"
#include "client/pool/pool.h"
#include "client/pool/shared_alloc.h"
#include "client/runtime/last_error.h"
#include "client/watch/switches.h"
#include "driver/capture.h"
#include "driver/event.h"

#define VARIABLE "GPUMEM_DEBUG"

struct debugged {
        struct debug_memory memory;
        bool is_graphs;
        struct stack allocated; /* with stacks or leaks */
        UT_hash_handle hh;
};

void debug_init(struct debug *debug)
{
        *debug = (struct debug){.checks = 0};
        pthread_mutex_init(&debug->lock, NULL);
}

/* Clients whose leaks are told at the process's exit. A forked child has its parent's list, and leaves it alone. */
struct exit_entry {
        struct debug *debug;
        pid_t pid;
        struct exit_entry *next;
};

static struct {
        pthread_mutex_t lock;
        pthread_once_t once;
        struct exit_entry *first;
} exits = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void tell_leaks(struct debug *debug)
{
        const struct debugged *debugged;
        struct leak *leaks;
        uint64_t n = 0;

        pthread_mutex_lock(&debug->lock);
        leaks = calloc(HASH_COUNT(debug->all) + 1, sizeof(*leaks));
        for (debugged = debug->all; leaks && debugged; debugged = debugged->hh.next)
                leaks[n++] = (struct leak){debugged->memory.pointer, debugged->memory.n_bytes,
                                           debugged->allocated};
        pthread_mutex_unlock(&debug->lock);
        if (leaks)
                leaks_tell(leaks, n);
        free(leaks);
}

static void tell_at_exit(void)
{
        pthread_mutex_lock(&exits.lock);
        for (struct exit_entry *entry = exits.first; entry; entry = entry->next) {
                if (entry->pid == getpid())
                        tell_leaks(entry->debug);
        }
        pthread_mutex_unlock(&exits.lock);
}

static void before_fork(void)
{
        pthread_mutex_lock(&exits.lock);
}

static void after_fork(void)
{
        pthread_mutex_unlock(&exits.lock);
}

/* As those of runtime/fork_guard.h. */
__attribute__((constructor)) static void watch_forks(void)
{
        (void)pthread_atfork(before_fork, after_fork, after_fork);
}

static void begin_exits(void)
{
        (void)atexit(tell_at_exit);
}

static int add_exit(struct debug *debug)
{
        struct exit_entry *entry = malloc(sizeof(*entry));

        if (!entry)
                return -ENOMEM;
        (void)pthread_once(&exits.once, begin_exits);
        pthread_mutex_lock(&exits.lock);
        *entry = (struct exit_entry){debug, getpid(), exits.first};
        exits.first = debug->at_exit = entry;
        pthread_mutex_unlock(&exits.lock);
        return 0;
}

static void end_exit(struct debug *debug)
{
        struct exit_entry **entry = &exits.first;

        if (!debug->at_exit)
                return;
        tell_leaks(debug);
        pthread_mutex_lock(&exits.lock);
        while (*entry != debug->at_exit)
                entry = &(*entry)->next;
        *entry = debug->at_exit->next;
        pthread_mutex_unlock(&exits.lock);
        free(debug->at_exit);
}

static void free_record(const struct cuda *cuda, struct debugged *debugged)
{
        if (cuda)
                event_free(cuda, &debugged->memory.filled);
        free(debugged);
}

/* The program does not know of the fills that are left, so their work is waited for. */
void debug_deinit(struct debug *debug)
{
        const struct cuda *cuda = debug->filler.cuda;
        struct debugged *debugged, *next;

        end_exit(debug);
        free(debug->pasts.at);
        HASH_ITER(hh, debug->all, debugged, next)
        {
                HASH_DEL(debug->all, debugged);
                if (cuda)
                        (void)event_wait(cuda, &debugged->memory.filled);
                free_record(cuda, debugged);
        }
        pthread_mutex_destroy(&debug->lock);
}

static int parse_word(const char *word, size_t length, unsigned *checks)
{
        static const struct {
                const char *word;
                enum debug_check check;
        } known[] = {{"fill", DEBUG_FILL},
                     {"guard", DEBUG_GUARD},
                     {"stacks", DEBUG_STACKS},
                     {"leaks", DEBUG_LEAKS}};

        for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
                if (strlen(known[i].word) == length && memcmp(known[i].word, word, length) == 0) {
                        *checks |= known[i].check;
                        return 0;
                }
        }
        return GPUMEM_E_BAD_DEBUG;
}

static int refuse(const char *value, const char *word, size_t length)
{
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text),
                       VARIABLE ": \"%.100s\" has the unknown word \"%.*s\"; allowed: fill, guard, "
                                "stacks, leaks, with commas between them",
                       value, length < 100 ? (int)length : 100, word);
        log_debug("%s", text);
        last_error_set(GPUMEM_E_BAD_DEBUG, text);
        return GPUMEM_E_BAD_DEBUG;
}

static int begin_checks(struct debug *debug, unsigned checks)
{
        int r = 0;

        if (checks & DEBUG_STACKS)
                debug->pasts.at = calloc(LEAKS_N_PAST, sizeof(*debug->pasts.at));
        if (checks & DEBUG_STACKS && !debug->pasts.at)
                return -ENOMEM;
        if (checks & DEBUG_LEAKS)
                r = add_exit(debug);
        if (r)
                return r;
        debug->checks = checks;
        switch_on(SWITCH_DEBUG);
        return 0;
}

int debug_read_setting(struct debug *debug)
{
        const char *value = secure_getenv(VARIABLE), *word = value;
        unsigned checks = 0;
        size_t length;

        if (!value || !*value)
                return 0;
        for (;; word += length + 1) {
                length = strcspn(word, ",");
                if (parse_word(word, length, &checks))
                        return refuse(value, word, length);
                if (!word[length])
                        break;
        }
        return begin_checks(debug, checks);
}

void debug_open(struct debug *debug, const struct debug_env *env)
{
        debug->pools = env->pools;
        debug->n_pools = env->n_pools;
        debug->filler = (struct debug_filler){.cuda = env->cuda,
                                              .streams = env->streams,
                                              .uses = env->uses,
                                              .is_filling = debug->checks & DEBUG_FILL};
}

/* The user has set GPUMEM_DEBUG, so stderr says, once a process, if a check is left out. */
static void complain(int r, const char *what)
{
        static atomic_flag is_told = ATOMIC_FLAG_INIT;

        if (!atomic_flag_test_and_set(&is_told))
                log_warning(VARIABLE ": %s: %s; this is told once", what, gpumem_strerror(r));
}

static struct stream_heap *heap_of(const struct debug *debug, const void *pointer)
{
        struct stream_heap *heap = NULL;

        for (uint32_t i = 0; !heap && i < *debug->n_pools; i++)
                heap = pool_heap_of(&debug->pools[i], pointer);
        return heap;
}

static struct debugged *find(struct debug *debug, const void *pointer)
{
        struct debugged *debugged;

        HASH_FIND_PTR(debug->all, &pointer, debugged);
        return debugged;
}

static struct debugged *take(struct debug *debug, const void *pointer)
{
        struct debugged *debugged;

        pthread_mutex_lock(&debug->lock);
        debugged = find(debug, pointer);
        if (debugged)
                HASH_DEL(debug->all, debugged);
        pthread_mutex_unlock(&debug->lock);
        return debugged;
}

/* Without memory for the entry, the allocation is not in the table. */
static void put(struct debug *debug, struct debugged *take_debugged)
{
        bool is_there;

        pthread_mutex_lock(&debug->lock);
        HASH_ADD_PTR(debug->all, memory.pointer, take_debugged);
        is_there = take_debugged->hh.tbl != NULL;
        pthread_mutex_unlock(&debug->lock);
        if (is_there)
                return;
        if (debug->filler.cuda)
                (void)event_wait(debug->filler.cuda, &take_debugged->memory.filled);
        free_record(debug->filler.cuda, take_debugged);
        complain(-ENOMEM, "an allocation is not checked");
}

static bool keeps_stacks(const struct debug *debug)
{
        return debug->checks & (DEBUG_STACKS | DEBUG_LEAKS);
}

static bool touches_memory(const struct debug *debug)
{
        return debug->checks & (DEBUG_FILL | DEBUG_GUARD);
}

uint64_t debug_n_more_bytes(const struct debug *debug, const struct gpumem_request *asked)
{
        bool is_wrong = asked->n_bytes == 0 || asked->n_bytes > UINT64_MAX - DEBUG_GUARD_BYTES;

        return debug->checks & DEBUG_GUARD && !(asked->flags & SHARED_ALLOC_FLAGS) && !is_wrong
                       ? DEBUG_GUARD_BYTES
                       : 0;
}

void debug_alloc(struct debug *debug, const struct gpumem_request *asked, uint64_t n_more_bytes,
                 void *pointer)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = capture_spare(debug->filler.cuda);
        const struct stream_heap *heap = heap_of(debug, pointer);
        struct debugged *debugged;
        int r = 0;

        if (asked->flags & SHARED_ALLOC_FLAGS && debug->checks & DEBUG_FILL)
                r = debug_memory_fill_own_block(&debug->filler, asked, pointer);
        if (r)
                complain(r, "an allocation is not filled");
        if (asked->flags & SHARED_ALLOC_FLAGS && !keeps_stacks(debug))
                return;
        debugged = malloc(sizeof(*debugged));
        if (!debugged) {
                complain(-ENOMEM, "an allocation is not checked");
                return;
        }
        *debugged = (struct debugged){
                .memory = {.pointer = pointer, .n_bytes = asked->n_bytes, .kind = asked->kind},
                .is_graphs = heap && pool_is_captured(heap)};
        if (keeps_stacks(debug))
                stack_take(&debugged->allocated);
        r = heap && touches_memory(debug) && !debugged->is_graphs
                    ? debug_memory_begin(&debug->filler, asked, n_more_bytes, &debugged->memory)
                    : 0;
        if (r)
                complain(r, "an allocation is not filled or not guarded");
        put(debug, debugged);
}

struct debugged *debug_begin_free(struct debug *debug, const void *pointer, enum debug_order order,
                                  void *stream)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = capture_spare(debug->filler.cuda);
        struct debugged *debugged = take(debug, pointer);
        const struct stream_heap *heap = debugged ? heap_of(debug, pointer) : NULL;
        int r;

        if (!heap || debugged->is_graphs || !touches_memory(debug))
                return debugged;
        r = debug_memory_end(&debug->filler, &debugged->memory, heap, order, stream);
        /* A positive result, such as that the stream captures, is reported by the free itself. */
        if (r < 0)
                complain(r, "freed memory is neither checked nor filled");
        return debugged;
}

void debug_end_free(struct debug *debug, struct debugged *take_debugged, int r)
{
        if (!take_debugged)
                return;
        if (r) {
                put(debug, take_debugged);
                return;
        }
        pthread_mutex_lock(&debug->lock);
        pasts_add(&debug->pasts, take_debugged->memory.pointer, take_debugged->memory.n_bytes,
                  &take_debugged->allocated);
        pthread_mutex_unlock(&debug->lock);
        free_record(debug->filler.cuda, take_debugged);
}

void debug_tell_wrong_free(struct debug *debug, const void *pointer)
{
        struct past past = {.pointer = NULL};
        const struct past *found;
        struct stack here;

        if (!(debug->checks & DEBUG_STACKS))
                return;
        pthread_mutex_lock(&debug->lock);
        found = pasts_find(&debug->pasts, pointer);
        if (found)
                past = *found;
        pthread_mutex_unlock(&debug->lock);
        stack_take(&here);
        log_error(VARIABLE ": stacks: %s: nothing is allocated at %p",
                  past.pointer ? "second free" : "free of what is not gpumemd's", pointer);
        stack_tell(VARIABLE ": stacks: freed now by", &here);
        if (!past.pointer)
                return;
        stack_tell(VARIABLE ": stacks: freed before by", &past.freed);
        stack_tell(VARIABLE ": stacks: and allocated by", &past.allocated);
}

void debug_describe(struct debug *debug, struct gpumem_info *info)
{
        const struct debugged *debugged;

        if (!debug_is_on(debug))
                return;
        pthread_mutex_lock(&debug->lock);
        debugged = find(debug, info->base);
        if (debugged)
                info->n_requested_bytes = debugged->memory.n_bytes;
        pthread_mutex_unlock(&debug->lock);
}
