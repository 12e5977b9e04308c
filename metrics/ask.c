#include "metrics/ask.h"

#include <time.h>

#include "base/err.h"
#include "client/rows.h"

static uint64_t now_ns(void)
{
        struct timespec time;

        (void)clock_gettime(CLOCK_MONOTONIC, &time);
        return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* One question, answered by rows. */
struct question {
        enum message_kind request;
        enum message_kind reply;
        size_t n_row_bytes;
};

/* How many rows of which size the answer says that its first fd has. */
static void read_head(const struct frame *reply, uint32_t *ret_n_rows, uint32_t *ret_n_row_bytes)
{
#define HEAD(KIND, name)                                    \
        case MESSAGE_##KIND:                                \
                *ret_n_rows = reply->name.n_rows;           \
                *ret_n_row_bytes = reply->name.n_row_bytes; \
                break;
        switch (reply->kind) {
                HEAD(POOLS_REPLY, pools_reply)
                HEAD(STATS_REPLY, stats_reply)
                HEAD(CLIENTS_REPLY, clients_reply)
                HEAD(TENANTS_REPLY, tenants_reply)
        default:
                break;
        }
#undef HEAD
}

/* No rows are none, but where there must be some. */
static int ask(struct link *link, const struct question *question, void **ret_rows,
               uint32_t *ret_n_rows)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        uint32_t n_rows = 0, n_row_bytes = 0;
        int r;

        r = link_call(link, &request, question->request, question->reply, &reply, &fds);
        if (r)
                return r;
        read_head(&reply, &n_rows, &n_row_bytes);
        if (n_rows) {
                r = rows_read(fds.fds[0], n_rows, n_row_bytes, question->n_row_bytes, ret_rows);
                if (r)
                        return r;
        }
        *ret_n_rows = n_rows;
        return 0;
}

static int check_pools(struct metrics_figures *figures, uint32_t n_stats)
{
        if (!figures->n_pools || n_stats != figures->n_pools)
                return -EPROTO;
        for (uint32_t i = 0; i < figures->n_pools; i++) {
                struct pool_row *pool = &figures->pools[i];

                pool->name[sizeof(pool->name) - 1] = '\0';
                if (pool->id != figures->stats[i].pool || (i && pool->id <= pool[-1].id))
                        return -EPROTO;
        }
        return 0;
}

static int ask_pools(struct link *link, struct metrics_figures *figures)
{
        static const struct question pools = {MESSAGE_POOLS, MESSAGE_POOLS_REPLY,
                                              sizeof(struct pool_row)};
        static const struct question stats = {MESSAGE_STATS, MESSAGE_STATS_REPLY,
                                              sizeof(struct stats_row)};
        uint32_t n_stats;
        int r;

        r = ask(link, &pools, (void **)&figures->pools, &figures->n_pools);
        if (!r)
                r = ask(link, &stats, (void **)&figures->stats, &n_stats);
        return r ? r : check_pools(figures, n_stats);
}

int ask_figures(struct link *link, bool with_tenants, struct metrics_figures *ret_figures)
{
        static const struct question clients = {MESSAGE_CLIENTS, MESSAGE_CLIENTS_REPLY,
                                                sizeof(struct client_row)};
        static const struct question tenants = {MESSAGE_TENANTS, MESSAGE_TENANTS_REPLY,
                                                sizeof(struct tenant_row)};
        struct metrics_figures figures = {.is_up = true, .with_tenants = with_tenants};
        uint64_t since_ns = now_ns();
        int r;

        r = ask_pools(link, &figures);
        if (!r)
                r = ask(link, &clients, (void **)&figures.clients, &figures.n_clients);
        if (!r && with_tenants)
                r = ask(link, &tenants, (void **)&figures.tenants, &figures.n_tenants);
        if (r) {
                metrics_deinit(&figures);
                return r;
        }
        figures.answer_ns = now_ns() - since_ns;
        *ret_figures = figures;
        return 0;
}

int ask_daemon(const char *socket_path, const char *program, uint32_t answer_ms, bool with_tenants,
               struct metrics_figures *ret_figures, uint64_t *ret_incarnation)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        const struct link_hello hello = {.program = program, .answer_ms = answer_ms};
        struct message_welcome welcome;
        struct link *link;
        int r;

        r = link_open(socket_path, &hello, &link, &welcome, &fds);
        if (r)
                return r;
        r = ask_figures(link, with_tenants, ret_figures);
        if (!r)
                *ret_incarnation = welcome.incarnation;
        link_free(link);
        return r;
}
