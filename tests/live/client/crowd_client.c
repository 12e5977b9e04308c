/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/client/crowd.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "tests/demo/gpu.h"

/* For each stream. Small enough that the whole crowd has room for it, holes included, beside half a device
 * and the large allocations. */
#define LIVE_BYTES_MAX (4 * MIB)
#define N_LIVE_MAX     (CROWD_LIVE_MAX / CROWD_LANES_MAX)

/* Sizes are doubled a random number of times; each doubling has the same probability. So 512 bytes to 4
 * MiB; rarely 16 to 256 MiB, of pinned memory, which costs real pages, 4 to 16 MiB. */
#define LEAST_BYTES              UINT64_C(512)
#define N_DOUBLINGS              13
#define LARGE_DEVICE_BYTES       (16 * MIB)
#define N_LARGE_DEVICE_DOUBLINGS 4
#define LARGE_PINNED_BYTES       (4 * MIB)
#define N_LARGE_PINNED_DOUBLINGS 2

/* A memset covers every byte, so it is only used for smaller allocations. */
#define SET_BYTES_MAX (64 * KIB)

#define ONE_IN_LARGE      400
#define ONE_IN_SHARED     100
#define ONE_IN_ALL_FREED  500
#define ONE_IN_REGISTERED 8

#define N_NODES_MAX 64

void crowd_fail(const struct crowd *crowd, const char *format, ...)
{
        char text[256];
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        (void)fprintf(stderr, "client %u, allocation %" PRIu64 ": %s\n", crowd->index,
                      crowd->serial, text);
        _exit(EXIT_FAILURE);
}

void crowd_must(const struct crowd *crowd, int result, const char *what)
{
        if (result)
                crowd_fail(crowd, "%s: %d, %s", what, result, gpumem_strerror(result));
}

uint64_t crowd_tag(const struct crowd *crowd)
{
        return crowd->seed ^ (uint64_t)(crowd->index + 1) << 40 ^ crowd->serial;
}

static void tell(const struct crowd *crowd, enum crowd_word word)
{
        struct crowd_news news = {.word = word, .counts = crowd->counts};

        if (send(STDIN_FILENO, &news, sizeof(news), MSG_NOSIGNAL) != (ssize_t)sizeof(news))
                crowd_fail(crowd, "the test cannot be told: %s", strerror(errno));
}

static void await(const struct crowd *crowd, enum crowd_word word)
{
        struct crowd_news news;
        ssize_t n_bytes = recv(STDIN_FILENO, &news, sizeof(news), 0);

        /* It has given up because of another process, which has printed the reason. */
        if (n_bytes == 0)
                _exit(EXIT_FAILURE);
        if (n_bytes != (ssize_t)sizeof(news) || news.word != word)
                crowd_fail(crowd, "the test did not say %d", (int)word);
}

/* How long attached memory is kept, in allocations. */
#define KEPT_STEPS 30

enum word { OFFER, ANSWER, END };

struct news {
        enum word word;
        enum crowd_kind kind;
        int device;
        uint64_t n_bytes;
        uint64_t tag;
        struct gpumem_token token;
};

/* The bytes that answer a tag. */
static uint64_t answer_to(uint64_t tag)
{
        return ~tag;
}

static void say(const struct crowd *crowd, int fd, const struct news *news)
{
        if (send(fd, news, sizeof(*news), MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(*news))
                crowd_fail(crowd, "a neighbour cannot be told: %s", strerror(errno));
}

static bool hear(const struct crowd *crowd, int fd, struct news *ret_news)
{
        ssize_t n = recv(fd, ret_news, sizeof(*ret_news), MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN)
                return false;
        if (n != (ssize_t)sizeof(*ret_news))
                crowd_fail(crowd, "a neighbour is not understood");
        return true;
}

/* The other process is told by a message, so this one's stream must be done. */
static void finish_filling(const struct crowd *crowd, const struct crowd_memory *memory)
{
        if (memory->kind == CROWD_DEVICE)
                crowd_must(crowd, gpu_synchronize(memory->lane->gpu), "waiting for a stream");
}

static void detach(struct crowd *crowd)
{
        struct crowd_memory *memory = &crowd->ring.attached;
        void *stream = memory->lane ? gpu_stream(memory->lane->gpu) : NULL;

        crowd_check(crowd, memory);
        crowd_use(crowd, memory->lane);
        crowd_must(crowd, gpumem_detach(crowd->client, memory->bytes, stream), "gpumem_detach");
        crowd->ring.is_attached = false;
}

static void map(struct crowd *crowd, const struct news *offer)
{
        struct crowd_memory *memory = &crowd->ring.attached;
        void *pointer;
        uint64_t n_bytes;

        *memory = (struct crowd_memory){.n_bytes = offer->n_bytes,
                                        .kind = offer->kind,
                                        .filling = CROWD_COPIED,
                                        .tag = offer->tag};
        if (offer->kind != CROWD_UNBOUND)
                memory->lane = &crowd->lanes[(unsigned)offer->device * CROWD_STREAMS +
                                             test_random_below(&crowd->random, CROWD_STREAMS)];
        crowd_use(crowd, memory->lane);
        crowd_must(crowd, gpumem_attach(crowd->client, &offer->token, &pointer, &n_bytes),
                   "gpumem_attach");
        if (n_bytes != offer->n_bytes)
                crowd_fail(crowd, "what is attached has another size");
        memory->bytes = pointer;
}

static void take_offer(struct crowd *crowd, const struct news *offer)
{
        struct news answer = {.word = ANSWER};
        struct crowd_memory *memory = &crowd->ring.attached;

        if (crowd->ring.is_attached)
                detach(crowd);
        map(crowd, offer);
        crowd_check(crowd, memory);
        crowd_fill(crowd, memory, CROWD_COPIED, answer_to(offer->tag));
        finish_filling(crowd, memory);
        crowd->ring.is_attached = true;
        crowd->ring.attached_serial = crowd->serial;
        crowd->counts.attached++;
        say(crowd, crowd->ring.last_fd, &answer);
}

static void take_answer(struct crowd *crowd)
{
        struct crowd_memory *memory = &crowd->ring.offered;

        memory->tag = answer_to(memory->tag);
        if (test_random_below(&crowd->random, 2))
                crowd_must(crowd, gpumem_unshare(crowd->client, &crowd->ring.token),
                           "gpumem_unshare");
        crowd_check(crowd, memory);
        crowd_must(crowd,
                   gpumem_free(crowd->client, memory->bytes,
                               memory->lane ? gpu_stream(memory->lane->gpu) : NULL),
                   "gpumem_free");
        crowd->ring.is_offering = false;
}

/* Handles the neighbours' messages; does not wait. */
static void serve_ring(struct crowd *crowd)
{
        struct crowd_ring *ring = &crowd->ring;
        struct news news;

        if (hear(crowd, ring->next_fd, &news))
                take_answer(crowd);
        if (hear(crowd, ring->last_fd, &news)) {
                if (news.word == OFFER)
                        take_offer(crowd, &news);
                else
                        ring->last_has_ended = true;
        }
        if (ring->is_attached && crowd->serial >= ring->attached_serial + KEPT_STEPS)
                detach(crowd);
}

/* Offers such memory to the next process. No other offer may be open. */
static void offer_to_next(struct crowd *crowd, enum crowd_kind kind, struct crowd_lane *lane,
                          uint64_t n_bytes)
{
        struct crowd_ring *ring = &crowd->ring;
        struct news offer = {.word = OFFER,
                             .kind = kind,
                             .device = lane ? lane->device : 0,
                             .n_bytes = n_bytes,
                             .tag = crowd_tag(crowd)};

        crowd_alloc(crowd, kind, lane, n_bytes, GPUMEM_SHAREABLE, &ring->offered);
        crowd_fill(crowd, &ring->offered, CROWD_COPIED, offer.tag);
        finish_filling(crowd, &ring->offered);
        crowd_must(crowd, gpumem_share(crowd->client, ring->offered.bytes, NULL, &ring->token),
                   "gpumem_share");
        offer.token = ring->token;
        ring->is_offering = true;
        crowd->counts.shared++;
        say(crowd, ring->next_fd, &offer);
}

static void await_news(struct crowd *crowd)
{
        struct pollfd fds[] = {{.fd = crowd->ring.next_fd, .events = POLLIN},
                               {.fd = crowd->ring.last_fd, .events = POLLIN}};

        if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
                crowd_fail(crowd, "poll: %s", strerror(errno));
        serve_ring(crowd);
}

/* Waits until the next process has replied and the last one offers no more; holds nothing afterwards. */
static void end_ring(struct crowd *crowd)
{
        struct news end = {.word = END};

        while (crowd->ring.is_offering)
                await_news(crowd);
        say(crowd, crowd->ring.next_fd, &end);
        while (!crowd->ring.last_has_ended)
                await_news(crowd);
        if (crowd->ring.is_attached)
                detach(crowd);
}

static uint64_t below(struct crowd *crowd, uint64_t limit)
{
        return test_random_below(&crowd->random, limit);
}

static bool one_in(struct crowd *crowd, uint64_t n)
{
        return below(crowd, n) == 0;
}

static uint64_t draw_bytes(struct crowd *crowd, uint64_t n_least, unsigned n_doublings)
{
        uint64_t floor = n_least << below(crowd, n_doublings);

        return floor + below(crowd, floor);
}

static struct crowd_lane *draw_lane(struct crowd *crowd)
{
        return &crowd->lanes[below(crowd, crowd->n_lanes)];
}

static enum crowd_kind draw_kind(struct crowd *crowd)
{
        uint64_t number = below(crowd, 10);

        if (number == 0)
                return CROWD_UNBOUND;
        return number == 1 ? CROWD_PINNED : CROWD_DEVICE;
}

static void free_live(struct crowd *crowd, unsigned i)
{
        struct crowd_memory memory = crowd->live[i];

        crowd->live[i] = crowd->live[--crowd->n_live];
        crowd->n_live_bytes -= memory.n_bytes;
        crowd_free(crowd, &memory);
}

static void free_all_live(struct crowd *crowd)
{
        while (crowd->n_live)
                free_live(crowd, (unsigned)below(crowd, crowd->n_live));
}

static void make_room(struct crowd *crowd, uint64_t n_bytes)
{
        while (crowd->n_live == N_LIVE_MAX * crowd->n_lanes ||
               (crowd->n_live && crowd->n_live_bytes + n_bytes > LIVE_BYTES_MAX * crowd->n_lanes))
                free_live(crowd, (unsigned)below(crowd, crowd->n_live));
}

/* Some are not checked before they are freed. */
static void fill_perhaps(struct crowd *crowd, struct crowd_memory *memory)
{
        bool is_set = memory->n_bytes <= SET_BYTES_MAX && one_in(crowd, 3);

        if (one_in(crowd, 4))
                crowd_fill(crowd, memory, is_set ? CROWD_SET : CROWD_COPIED, crowd_tag(crowd));
}

static void register_later(struct crowd *crowd, const struct crowd_memory *memory)
{
        crowd_use(crowd, draw_lane(crowd));
        crowd_must(crowd, gpumem_register(crowd->client, memory->bytes), "gpumem_register");
        crowd->counts.registered++;
}

static void add_live(struct crowd *crowd, enum crowd_kind kind, struct crowd_lane *lane)
{
        uint64_t n_bytes = draw_bytes(crowd, LEAST_BYTES, N_DOUBLINGS);
        struct crowd_memory *memory;

        make_room(crowd, n_bytes);
        memory = &crowd->live[crowd->n_live];
        crowd_alloc(crowd, kind, lane, n_bytes, 0, memory);
        crowd->n_live++;
        crowd->n_live_bytes += n_bytes;
        if (kind == CROWD_UNBOUND && one_in(crowd, ONE_IN_REGISTERED))
                register_later(crowd, memory);
        fill_perhaps(crowd, memory);
}

/* No process waits while it holds something large, so processes that wait for room get it. */
static void pass_large(struct crowd *crowd, enum crowd_kind kind, struct crowd_lane *lane)
{
        struct crowd_memory memory;
        uint64_t n_bytes;

        if (kind == CROWD_DEVICE)
                n_bytes = draw_bytes(crowd, LARGE_DEVICE_BYTES, N_LARGE_DEVICE_DOUBLINGS);
        else
                n_bytes = draw_bytes(crowd, LARGE_PINNED_BYTES, N_LARGE_PINNED_DOUBLINGS);
        crowd_alloc(crowd, kind, lane, n_bytes, 0, &memory);
        fill_perhaps(crowd, &memory);
        crowd_free(crowd, &memory);
}

/* A process that has its half holds it until another one was refused. */
static void pass_crush(struct crowd *crowd)
{
        struct crowd_lane *lane = &crowd->lanes[crowd->index % crowd->n_lanes];
        struct crowd_memory memory;
        bool is_refused;

        is_refused = !crowd_alloc_now(crowd, CROWD_DEVICE, lane, CROWD_CRUSH_BYTES, &memory);
        crowd->counts.refused += is_refused;
        tell(crowd, CROWD_CRUSHED);
        if (is_refused)
                crowd_alloc(crowd, CROWD_DEVICE, lane, CROWD_CRUSH_BYTES, 0, &memory);
        crowd_fill(crowd, &memory, CROWD_COPIED, crowd_tag(crowd));
        await(crowd, CROWD_LET_GO);
        crowd_free(crowd, &memory);
}

static void step(struct crowd *crowd)
{
        enum crowd_kind kind = draw_kind(crowd);
        struct crowd_lane *lane = kind == CROWD_UNBOUND ? NULL : draw_lane(crowd);

        serve_ring(crowd);
        if (one_in(crowd, ONE_IN_ALL_FREED))
                free_all_live(crowd);
        if (crowd->serial == crowd->n_steps / 2)
                pass_crush(crowd);
        else if (one_in(crowd, ONE_IN_SHARED) && !crowd->ring.is_offering)
                offer_to_next(crowd, kind, lane, draw_bytes(crowd, LEAST_BYTES, N_DOUBLINGS));
        else if (one_in(crowd, ONE_IN_LARGE))
                pass_large(crowd, kind, lane);
        else
                add_live(crowd, kind, lane);
}

static void open_lanes(struct crowd *crowd, unsigned n_devices)
{
        for (unsigned i = 0; i < n_devices * CROWD_STREAMS; i++) {
                struct crowd_lane *lane = &crowd->lanes[i];

                lane->device = (int)(i / CROWD_STREAMS);
                crowd_must(crowd, gpu_new(lane->device, &lane->gpu), "a device");
                crowd->n_lanes++;
        }
}

static void close_lanes(struct crowd *crowd)
{
        for (unsigned i = 0; i < crowd->n_lanes; i++)
                gpu_free(crowd->lanes[i].gpu);
}

static void alloc_scratch(struct crowd *crowd, struct crowd_memory *ret_scratch)
{
        for (unsigned i = 0; i < crowd->n_lanes; i++) {
                struct crowd_lane *lane = &crowd->lanes[i];

                crowd_alloc(crowd, CROWD_DEVICE, lane, CROWD_SCRATCH_BYTES, 0, &ret_scratch[i]);
                crowd_fill(crowd, &ret_scratch[i], CROWD_SET, 0);
                lane->scratch = ret_scratch[i].bytes;
        }
}

/* Whatever the client held, the library has nothing left for it. */
static void expect_nothing(struct crowd *crowd, enum gpumem_kind kind, int32_t place)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};
        int r = gpumem_get_stats(crowd->client, kind, place, &stats);

        if (r == GPUMEM_E_NO_POOL && kind == GPUMEM_PINNED)
                return;
        crowd_must(crowd, r, "gpumem_get_stats");
        if (stats.n_requested_bytes || stats.n_allocated_bytes || stats.n_reserved_bytes ||
            stats.n_blocks)
                crowd_fail(crowd,
                           "everything was freed, yet of kind %d at %" PRId32 " there are %" PRIu64
                           " bytes in allocations and %" PRIu64 " in %" PRIu64 " blocks",
                           (int)kind, place, stats.n_allocated_bytes, stats.n_reserved_bytes,
                           stats.n_blocks);
        crowd->counts.hits += stats.n_hits;
        crowd->counts.misses += stats.n_misses;
}

static void expect_nothing_anywhere(struct crowd *crowd)
{
        for (unsigned i = 0; i < crowd->n_lanes; i += CROWD_STREAMS)
                expect_nothing(crowd, GPUMEM_DEVICE, crowd->lanes[i].device);
        for (int32_t node = 0; node < N_NODES_MAX; node++)
                expect_nothing(crowd, GPUMEM_PINNED, node);
}

/* The scratch memory counts as an allocation, too. */
static void run(struct crowd *crowd)
{
        struct crowd_memory scratch[CROWD_LANES_MAX];

        alloc_scratch(crowd, scratch);
        for (crowd->serial = crowd->n_lanes + 1; crowd->serial <= crowd->n_steps; crowd->serial++)
                step(crowd);
        free_all_live(crowd);
        end_ring(crowd);
        for (unsigned i = 0; i < crowd->n_lanes; i++)
                crowd_free(crowd, &scratch[i]);
        expect_nothing_anywhere(crowd);
}

int crowd_client_main(char **arguments)
{
        struct crowd crowd = {
                .index = (unsigned)strtoul(arguments[CROWD_ARG_INDEX], NULL, 10),
                .n_steps = strtoull(arguments[CROWD_ARG_STEPS], NULL, 10),
                .seed = strtoull(arguments[CROWD_ARG_SEED], NULL, 10),
                .node = GPUMEM_NEAREST,
                .ring = {.next_fd = atoi(arguments[CROWD_ARG_NEXT_FD]),
                         .last_fd = atoi(arguments[CROWD_ARG_LAST_FD])},
        };

        crowd.random.state = crowd_tag(&crowd);
        open_lanes(&crowd, (unsigned)strtoul(arguments[CROWD_ARG_DEVICES], NULL, 10));
        crowd_must(&crowd, gpumem_connect(NULL, &crowd.client), "gpumem_connect");
        tell(&crowd, CROWD_READY);
        await(&crowd, CROWD_START);
        run(&crowd);
        tell(&crowd, CROWD_RETURNED);
        await(&crowd, CROWD_LEAVE);
        gpumem_disconnect(crowd.client);
        close_lanes(&crowd);
        return EXIT_SUCCESS;
}
