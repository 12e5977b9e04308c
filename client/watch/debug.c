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
#include "client/runtime/last_error.h"
#include "client/streams/stream_uses.h"
#include "client/watch/switches.h"
#include "driver/bytes.h"
#include "driver/capture.h"
#include "driver/event.h"

#define VARIABLE "GPUMEM_DEBUG"

struct debugged {
        void *pointer;
        uint64_t n_bytes; /* as the program requested */
        enum gpumem_kind kind;
        bool is_graphs;
        bool is_guarded;
        struct stream_key key;    /* device memory: of the stream that it was allocated for */
        struct work_event filled; /* fill and guard; none: neither was written */
        struct stack allocated;   /* with stacks or leaks */
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
                leaks[n++] = (struct leak){debugged->pointer, debugged->n_bytes,
                                           debugged->allocated};
        pthread_mutex_unlock(&debug->lock);
        if (leaks)
                leaks_tell(leaks, n);
        free(leaks);
}

/* In a forked child a thread of the parent may have had the lock. */
static void tell_at_exit(void)
{
        if (pthread_mutex_trylock(&exits.lock))
                return;
        for (struct exit_entry *entry = exits.first; entry; entry = entry->next) {
                if (entry->pid == getpid())
                        tell_leaks(entry->debug);
        }
        pthread_mutex_unlock(&exits.lock);
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
                event_free(cuda, &debugged->filled);
        free(debugged);
}

/* The program does not know of the fills that are left, so their work is waited for. */
void debug_deinit(struct debug *debug)
{
        const struct cuda *cuda = debug->env.cuda;
        struct debugged *debugged, *next;

        end_exit(debug);
        free(debug->pasts.at);
        HASH_ITER(hh, debug->all, debugged, next)
        {
                HASH_DEL(debug->all, debugged);
                if (cuda)
                        (void)event_wait(cuda, &debugged->filled);
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
        debug->env = *env;
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

        for (uint32_t i = 0; !heap && i < *debug->env.n_pools; i++)
                heap = pool_heap_of(&debug->env.pools[i], pointer);
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
        HASH_ADD_PTR(debug->all, pointer, take_debugged);
        is_there = take_debugged->hh.tbl != NULL;
        pthread_mutex_unlock(&debug->lock);
        if (is_there)
                return;
        if (debug->env.cuda)
                (void)event_wait(debug->env.cuda, &take_debugged->filled);
        free_record(debug->env.cuda, take_debugged);
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

/* Fills device memory in the stream's order, pinned memory at once. */
static int fill(const struct debug *debug, enum gpumem_kind kind, void *at, unsigned char byte,
                uint64_t n_bytes, void *stream)
{
        if (kind == GPUMEM_DEVICE)
                return bytes_fill(debug->env.cuda, stream, (uint64_t)(uintptr_t)at, byte, n_bytes);
        memset(at, byte, n_bytes);
        return 0;
}

uint64_t debug_n_more_bytes(const struct debug *debug, const struct gpumem_request *asked)
{
        bool is_wrong = asked->n_bytes == 0 || asked->n_bytes > UINT64_MAX - DEBUG_GUARD_BYTES;

        return debug->checks & DEBUG_GUARD && !(asked->flags & GPUMEM_SHAREABLE) && !is_wrong
                       ? DEBUG_GUARD_BYTES
                       : 0;
}

/* The block is new, so no stream orders the fill. The fill must be over at the end of the call: other processes may
 * write there then. */
static int fill_shareable(const struct debug *debug, const struct gpumem_request *asked,
                          void *pointer)
{
        const struct cuda *cuda = debug->env.cuda;
        struct stream_key key;
        void *stream;
        int ordinal, r, r_end;

        if (asked->kind == GPUMEM_PINNED)
                return fill(debug, asked->kind, pointer, DEBUG_ALLOCATED, asked->n_bytes, NULL);
        r = stream_identify(cuda, asked->stream, &key, &ordinal);
        if (!r)
                r = bytes_begin_stream(cuda, key.context, &stream);
        if (r)
                return r;
        r = fill(debug, asked->kind, pointer, DEBUG_ALLOCATED, asked->n_bytes, stream);
        r_end = bytes_end_stream(cuda, stream);
        return r ? r : r_end;
}

/* Records an event for frees in other streams; if that fails, waits for the fill. */
static int note_filled(const struct debug *debug, const struct gpumem_request *asked,
                       struct debugged *debugged)
{
        const struct cuda *cuda = debug->env.cuda;
        int ordinal, r;

        if (asked->kind == GPUMEM_PINNED)
                return 0;
        r = stream_identify(cuda, asked->stream, &debugged->key, &ordinal);
        if (!r)
                r = event_record(cuda, debugged->key.context, asked->stream, &debugged->filled);
        return r ? stream_synchronize(cuda, asked->stream) : 0;
}

/* May other streams use freed memory until the program makes the memory's stream wait for them? */
static bool is_forgiven(const struct debug *debug)
{
        streams_poll(debug->env.streams);
        return streams_forgive(debug->env.streams);
}

static void fill_and_guard(const struct debug *debug, const struct gpumem_request *asked,
                           uint64_t n_more_bytes, struct debugged *debugged)
{
        char *pointer = debugged->pointer;
        int r = 0;

        if (debug->checks & DEBUG_FILL)
                r = fill(debug, asked->kind, pointer, DEBUG_ALLOCATED, asked->n_bytes,
                         asked->stream);
        if (!r && n_more_bytes)
                r = fill(debug, asked->kind, pointer + asked->n_bytes, DEBUG_GUARD_BYTE,
                         DEBUG_GUARD_BYTES, asked->stream);
        debugged->is_guarded = !r && n_more_bytes;
        if (!r)
                r = note_filled(debug, asked, debugged);
        if (r)
                complain(r, "an allocation is not filled or not guarded");
}

void debug_alloc(struct debug *debug, const struct gpumem_request *asked, uint64_t n_more_bytes,
                 void *pointer)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = capture_spare(debug->env.cuda);
        const struct stream_heap *heap = heap_of(debug, pointer);
        struct debugged *debugged;
        int r = 0;

        if (asked->flags & GPUMEM_SHAREABLE && debug->checks & DEBUG_FILL)
                r = fill_shareable(debug, asked, pointer);
        if (r)
                complain(r, "an allocation is not filled");
        if (asked->flags & GPUMEM_SHAREABLE && !keeps_stacks(debug))
                return;
        debugged = malloc(sizeof(*debugged));
        if (!debugged) {
                complain(-ENOMEM, "an allocation is not checked");
                return;
        }
        *debugged = (struct debugged){.pointer = pointer,
                                      .n_bytes = asked->n_bytes,
                                      .kind = asked->kind,
                                      .is_graphs = heap && pool_is_captured(heap)};
        if (keeps_stacks(debug))
                stack_take(&debugged->allocated);
        if (heap && touches_memory(debug) && !debugged->is_graphs &&
            (asked->kind == GPUMEM_PINNED || !is_forgiven(debug)))
                fill_and_guard(debug, asked, n_more_bytes, debugged);
        put(debug, debugged);
}

static COLD _Noreturn void tell_damage(const struct debugged *debugged, const char *freed,
                                       unsigned first, unsigned n)
{
        log_error(VARIABLE ": guard: the program has written behind the end of its allocation: %s "
                           "memory at %p, of %" PRIu64 " bytes, freed %s. The first damaged byte "
                           "is at offset %" PRIu64 "; %u of the %u guard bytes are damaged. "
                           "Correct the copy, kernel or loop that writes there, or allocate more "
                           "bytes. The library aborts the program now",
                  debugged->kind == GPUMEM_DEVICE ? "device" : "pinned", debugged->pointer,
                  debugged->n_bytes, freed, debugged->n_bytes + first, n, DEBUG_GUARD_BYTES);
        abort();
}

static int check_guard(const struct debug *debug, const struct debugged *debugged,
                       const char *freed, void *stream)
{
        const char *guard = (const char *)debugged->pointer + debugged->n_bytes;
        unsigned first = DEBUG_GUARD_BYTES, n = 0;
        unsigned char bytes[DEBUG_GUARD_BYTES];
        int r = 0;

        if (debugged->kind == GPUMEM_DEVICE)
                r = bytes_read(debug->env.cuda, stream, (uint64_t)(uintptr_t)guard, bytes,
                               sizeof(bytes));
        else
                memcpy(bytes, guard, sizeof(bytes));
        if (r)
                return r;
        for (unsigned i = 0; i < sizeof(bytes); i++) {
                if (bytes[i] == DEBUG_GUARD_BYTE)
                        continue;
                first = first < i ? first : i;
                n++;
        }
        if (n)
                tell_damage(debugged, freed, first, n);
        return 0;
}

/* False: work in other streams may use the memory after its free, so its bytes must stay. */
static bool may_fill_at_free(const struct debug *debug, const void *pointer)
{
        return !is_forgiven(debug) && !stream_uses_has_recorded(debug->env.uses, pointer);
}

static int check_and_fill(const struct debug *debug, const struct debugged *debugged,
                          const char *freed, void *stream)
{
        int r = debugged->is_guarded ? check_guard(debug, debugged, freed, stream) : 0;

        if (r || !(debug->checks & DEBUG_FILL) || !may_fill_at_free(debug, debugged->pointer))
                return r;
        return fill(debug, debugged->kind, debugged->pointer, DEBUG_FREED, debugged->n_bytes,
                    stream);
}

/* Waits as the free itself does, before the CPU reads the guard. */
static int wait_for_pinned(const struct debug *debug, const struct stream_heap *heap,
                           const struct stream_key *order, void *stream)
{
        const struct cuda *cuda = debug->env.cuda;
        struct stream_key key;
        int ordinal, r;

        if (!cuda || (!order->context && heap->pool->memory.pinned != MEMORY_VMM))
                return 0;
        r = stream_identify(cuda, stream, &key, &ordinal);
        if (!r)
                return stream_synchronize(cuda, stream);
        if (r == GPUMEM_E_NO_CONTEXT && !order->context)
                return 0;
        if (r == GPUMEM_E_NO_CONTEXT && order->id == POOL_ANY_STREAM)
                return stream_synchronize_context(cuda, order->context);
        return r;
}

/* All work is over by now. Device memory is reached by a stream of its own context. */
static int check_and_fill_apart(const struct debug *debug, const struct debugged *debugged,
                                const char *freed, uint64_t context)
{
        const struct cuda *cuda = debug->env.cuda;
        void *stream = NULL;
        int r, r_end;

        if (debugged->kind == GPUMEM_PINNED)
                return check_and_fill(debug, debugged, freed, NULL);
        r = bytes_begin_stream(cuda, context, &stream);
        if (r)
                return r;
        r = check_and_fill(debug, debugged, freed, stream);
        r_end = bytes_end_stream(cuda, stream);
        return r ? r : r_end;
}

static bool is_same(const struct stream_key *one, const struct stream_key *other)
{
        return one->context == other->context && one->id == other->id;
}

/* The fill of the allocation must be over by the end of the free, which waits for its own stream only. A stream of
 * another context may be unable to reach the memory. */
static int check_and_fill_device(const struct debug *debug, const struct debugged *debugged,
                                 const char *freed, uint64_t context, void *stream)
{
        const struct cuda *cuda = debug->env.cuda;
        struct stream_key key;
        int ordinal, r = stream_identify(cuda, stream, &key, &ordinal), r_filled;

        r_filled = r || !is_same(&key, &debugged->key) ||
                                   !may_fill_at_free(debug, debugged->pointer)
                           ? event_wait(cuda, &debugged->filled)
                           : 0;
        if (r || r_filled)
                return r ? r : r_filled;
        if (key.context == context)
                return check_and_fill(debug, debugged, freed, stream);
        r = stream_synchronize(cuda, stream);
        return r ? r : check_and_fill_apart(debug, debugged, freed, context);
}

static int before_free(const struct debug *debug, const struct debugged *debugged,
                       const struct stream_heap *heap, void *stream)
{
        struct stream_key order = pool_order_of(heap, debugged->pointer);
        char freed[64];
        int r;

        (void)snprintf(freed, sizeof(freed), "in stream %p", stream);
        if (debugged->kind == GPUMEM_DEVICE)
                return check_and_fill_device(debug, debugged, freed, order.context, stream);
        r = wait_for_pinned(debug, heap, &order, stream);
        return r ? r : check_and_fill(debug, debugged, freed, NULL);
}

static int before_free_sync(const struct debug *debug, const struct debugged *debugged,
                            const struct stream_heap *heap)
{
        struct stream_key order = pool_order_of(heap, debugged->pointer);
        int r = 0;

        if (debug->env.cuda)
                r = stream_synchronize_contexts(debug->env.cuda, order.context);
        return r ? r : check_and_fill_apart(debug, debugged, "by gpumem_free_sync", order.context);
}

struct debugged *debug_begin_free(struct debug *debug, const void *pointer, enum debug_order order,
                                  void *stream)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = capture_spare(debug->env.cuda);
        struct debugged *debugged = take(debug, pointer);
        const struct stream_heap *heap = debugged ? heap_of(debug, pointer) : NULL;
        int r;

        if (!heap || debugged->is_graphs || !touches_memory(debug))
                return debugged;
        if (order == DEBUG_IN_STREAM)
                r = before_free(debug, debugged, heap, stream);
        else
                r = before_free_sync(debug, debugged, heap);
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
        pasts_add(&debug->pasts, take_debugged->pointer, take_debugged->n_bytes,
                  &take_debugged->allocated);
        pthread_mutex_unlock(&debug->lock);
        free_record(debug->env.cuda, take_debugged);
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
                info->n_requested_bytes = debugged->n_bytes;
        pthread_mutex_unlock(&debug->lock);
}
