/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/crowd_ring.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "tests/demo/gpu.h"
#include "tests/live/crowd.h"

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

/* What is written in answer to a tag. */
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

/* The other process is told by message, so what this one has in its stream must be over. */
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

void crowd_ring_serve(struct crowd *crowd)
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

void crowd_ring_offer(struct crowd *crowd, enum crowd_kind kind, struct crowd_lane *lane,
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
        crowd_ring_serve(crowd);
}

void crowd_ring_end(struct crowd *crowd)
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
