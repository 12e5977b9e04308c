/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon with wrong answers: the client reports an error, keeps none of its fds, maps nothing that it did
 * not ask for, and goes on. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "tests/demo/gpu.h"
#include "tests/live/restart/liar.h"
#include "tests/live/support/world.h"

#define PIECE           (8 * MIB)
#define MOST_MORE_PAGES 4096

static struct liar liar;
static struct gpu *gpu;
static struct gpumem_client *client; /* NULL: none is taken in */
static unsigned n_fds;

static void start(enum lie lie)
{
        liar_start(&liar, lie);
        ck_assert_int_eq(setenv("GPUMEM_CACHE_SIZE", "0", 1), 0);
        gpu = use_gpu();
        n_fds = own_fds();
}

static void start_and_connect(enum lie lie)
{
        start(lie);
        client = connect_client();
}

static void stop(void)
{
        gpumem_disconnect(client);
        ck_assert_uint_eq(own_fds(), n_fds);
        gpu_free(gpu);
        liar_end(&liar);
}

static int alloc(enum gpumem_kind kind, void **ret_pointer)
{
        const struct gpumem_request request = request_in(gpu_stream(gpu), kind, PIECE);

        return gpumem_alloc(client, &request, ret_pointer);
}

TEST(a_wrong_welcome_is_none, .from = LIE_BOARD_IS_PIPE, .to = LIE_BLOCK_IS_PIPE)
{
        start((enum lie)_i);
        ck_assert_int_ne(gpumem_connect(NULL, &client), 0);
}

static bool awaits_end;

/* The daemon's end comes before the client says anything. */
int __real_connect(int fd, const struct sockaddr *address, socklen_t n_bytes);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t n_bytes);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t n_bytes)
{
        int r = __real_connect(fd, address, n_bytes);
        struct pollfd end = {.fd = fd, .events = POLLRDHUP};

        if (r == 0 && awaits_end)
                (void)poll(&end, 1, -1);
        return r;
}

TEST(what_turns_a_client_away_is_told, .from = LIE_TURNED_AWAY_AT_ONCE,
     .to = LIE_TURNED_AWAY_READ + 1)
{
        start((enum lie)_i);
        awaits_end = _i == LIE_TURNED_AWAY_AT_ONCE;
        ck_assert_int_eq(gpumem_connect(NULL, &client), GPUMEM_E_TOO_MANY);
        last_refusal_says(NULL, GPUMEM_E_TOO_MANY, LIAR_TURNS_AWAY);
        last_refusal_says(NULL, GPUMEM_E_TOO_MANY, getenv("GPUMEM_SOCKET"));
}

static void lease_in_vain(enum lie lie, enum gpumem_kind kind)
{
        void *pointer = NULL;

        start_and_connect(lie);
        ck_assert_int_ne(alloc(kind, &pointer), 0);
        ck_assert_ptr_null(pointer);
}

TEST(a_wrong_lease_is_none, .from = LIE_BLOCK_IS_PIPE, .to = LIE_ANSWER_TO_NOBODY)
{
        lease_in_vain((enum lie)_i, GPUMEM_DEVICE);
}

TEST(a_wrong_lease_of_pinned_memory_is_none, .from = LIE_BLOCK_IS_PIPE, .to = LIE_ANSWER_TO_NOBODY)
{
        lease_in_vain((enum lie)_i, GPUMEM_PINNED);
}

static void lease_all_the_same(enum lie lie, enum gpumem_kind kind)
{
        void *pointer;

        start_and_connect(lie);
        ck_assert_int_eq(alloc(kind, &pointer), 0);
        if (kind == GPUMEM_PINNED)
                memset(pointer, 1, PIECE);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
}

/* Nothing is wrong with what is left without the lie, or these tests would prove nothing. */
TEST(a_daemon_that_does_not_lie_is_served_by, .from = GPUMEM_DEVICE, .to = GPUMEM_PINNED + 1)
{
        lease_all_the_same(LIE_NONE, (enum gpumem_kind)_i);
}

/* It would end the connection of a client that asks all the same. */
TEST(an_older_daemon_is_not_asked_for_registered_memory, .from = GPUMEM_DEVICE,
     .to = GPUMEM_PINNED + 1)
{
        static const uint32_t flags[] = {GPUMEM_REGISTERED, GPUMEM_RDMA};
        void *pointer = NULL;

        start_and_connect(LIE_KNOWS_NO_FEATURES);
        for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
                struct gpumem_request request = request_in(gpu_stream(gpu), (enum gpumem_kind)_i,
                                                           PIECE);

                request.flags = flags[i];
                ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_UNSUPPORTED);
                ck_assert_ptr_null(pointer);
                last_refusal_says(client, GPUMEM_E_UNSUPPORTED, "update gpumemd");
        }
        ck_assert_int_eq(alloc((enum gpumem_kind)_i, &pointer), 0);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
}

TEST(an_older_daemon_gets_no_name_in_utf8)
{
        const struct gpumem_options options = {.struct_size = sizeof(options),
                                               .program = "M\xc3\xbcller"};
        void *pointer = NULL;

        start(LIE_KNOWS_NO_FEATURES);
        ck_assert_int_eq(gpumem_connect(&options, &client), 0);
        ck_assert_int_eq(alloc(GPUMEM_PINNED, &pointer), 0);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
}

/* The program is told the words of an older daemon, and the figures of one whose reasons the library does not know. */
TEST(a_refusal_of_another_version_is_told, .from = LIE_REFUSES_ODDLY,
     .to = LIE_REFUSES_IN_WORDS + 1)
{
        void *pointer = NULL;

        start_and_connect((enum lie)_i);
        ck_assert_int_eq(alloc(GPUMEM_DEVICE, &pointer), GPUMEM_E_REFUSED);
        last_refusal_says(client, GPUMEM_E_REFUSED,
                          _i == LIE_REFUSES_IN_WORDS ? LIAR_REFUSES
                                                     : LIAR_REFUSES
                                  ": 16.00 EiB of 16.00 EiB reserved");
}

TEST(what_was_not_asked_for_does_no_harm, .from = LIE_ANSWER_TO_NOBODY,
     .to = LIE_NOTICES_AND_NO_ANSWER)
{
        lease_all_the_same((enum lie)_i, GPUMEM_DEVICE);
}

static void attach_in_vain(enum lie lie, unsigned char pool)
{
        const struct gpumem_token token = {.bytes = {pool}};
        uint64_t n_bytes;
        void *pointer = NULL;

        start_and_connect(lie);
        /* It has no use for a slot. */
        if (lie == LIE_LEASE_HAS_NO_SLOT)
                return;
        ck_assert_int_ne(gpumem_attach(client, &token, &pointer, &n_bytes), 0);
        ck_assert_ptr_null(pointer);
}

TEST(a_wrong_attached_is_none, .from = LIE_BLOCK_IS_PIPE, .to = LIE_ANSWER_TO_NOBODY)
{
        attach_in_vain((enum lie)_i, 0);
}

TEST(a_wrong_attached_of_pinned_memory_is_none, .from = LIE_BLOCK_IS_PIPE,
     .to = LIE_ANSWER_TO_NOBODY)
{
        attach_in_vain((enum lie)_i, 1);
}

TEST(a_daemon_that_does_not_lie_is_attached_from, .to = 2)
{
        const struct gpumem_token token = {.bytes = {(unsigned char)_i}};
        uint64_t n_bytes;
        void *pointer;

        start_and_connect(LIE_NONE);
        ck_assert_int_eq(gpumem_attach(client, &token, &pointer, &n_bytes), 0);
        ck_assert_uint_eq(n_bytes, LIAR_SHARED_BYTES);
        if (_i == 1)
                memset(pointer, 1, n_bytes);
        ck_assert_int_eq(gpumem_detach(client, pointer, gpu_stream(gpu)), 0);
}

/* As much as it has in memory now, in pages. */
static long own_pages(void)
{
        long n_all, n = 0;
        FILE *file = fopen("/proc/self/statm", "re");

        ck_assert_ptr_nonnull(file);
        ck_assert_int_eq(fscanf(file, "%ld %ld", &n_all, &n), 2);
        (void)fclose(file);
        return n;
}

/* Its exit status; nothing that it says is for a terminal to carry out. */
static int run_ctl(const char *what, const char *output)
{
        char command[512];
        FILE *said;
        int c, status;

        ck_assert_ptr_nonnull(getenv("GPUMEM_TEST_CTL"));
        (void)snprintf(command, sizeof(command), "'%s' %s %s 2>&1", getenv("GPUMEM_TEST_CTL"), what,
                       output);
        said = popen(command, "re");
        ck_assert_ptr_nonnull(said);
        while ((c = getc(said)) != EOF)
                ck_assert_msg(c == '\n' || (c >= ' ' && c <= '~'), "%s: byte %#x", what,
                              (unsigned)c);
        status = pclose(said);
        ck_assert_msg(WIFEXITED(status), "%s: %#x", what, (unsigned)status);
        return WEXITSTATUS(status);
}

static const char *const lists[] = {"clients", "blocks", "tenants", "events"};
static const char *const outputs[] = {"", "--json"};
static const enum lie harmless[] = {LIE_NONE, LIE_LIST_HAS_ODD_BYTES, LIE_LIST_IS_TAKEN_BACK_TWICE};

TEST(lists_are_shown_whatever_is_in_them, .to = ARRAY_SIZE(harmless))
{
        start(harmless[_i]);
        for (unsigned i = 0; i < ARRAY_SIZE(lists); i++) {
                for (unsigned j = 0; j < ARRAY_SIZE(outputs); j++)
                        ck_assert_int_eq(run_ctl(lists[i], outputs[j]), 0);
        }
}

/* It says by its exit status whether there were any. */
TEST(what_is_made_of_lists_is_shown_whatever_is_in_them, .to = ARRAY_SIZE(harmless))
{
        start(harmless[_i]);
        for (unsigned j = 0; j < ARRAY_SIZE(outputs); j++)
                ck_assert_int_le(run_ctl("leaks --older 0", outputs[j]), 1);
}

TEST(a_daemon_that_remembers_for_ever_is_not_listened_to_for_ever)
{
        start(LIE_EVENTS_FOR_EVER);
        for (unsigned j = 0; j < ARRAY_SIZE(outputs); j++)
                ck_assert_int_eq(run_ctl("events", outputs[j]), 0);
}

TEST(a_wrong_list_is_none, .from = LIE_LIST_IS_TAKEN_BACK, .to = LIE_N)
{
        start((enum lie)_i);
        for (unsigned i = 0; i < ARRAY_SIZE(lists); i++)
                ck_assert_int_ne(run_ctl(lists[i], outputs[0]), 0);
}

TEST(talk_is_no_answer)
{
        void *pointer = NULL;
        long n_pages;

        start_and_connect(LIE_NOTICES_AND_NO_ANSWER);
        n_pages = own_pages();
        ck_assert_int_eq(alloc(GPUMEM_DEVICE, &pointer), GPUMEM_E_DISCONNECTED);
        ck_assert_int_lt(own_pages(), n_pages + MOST_MORE_PAGES);
}

TESTS_MAIN("liar", .limit_s = 60, .stop = stop, .can_run = machine_is_emulated,
           .needs = "the liar's blocks are the emulated driver's")
