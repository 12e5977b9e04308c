/* Device memory of CUDA IPC handles: its blocks go from one process to another as others do, what it
 * cannot do is refused, and what is lost with its owner is lost. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "gpumem.h"
#include "tests/live/daemon.h"
#include "tests/live/holder.h"
#include "tests/suite.h"

/* Of 256 MiB: what is looked at when it is freed; and what there is no room for beside it. */
#define MUCH (80 * MIB)
#define MORE (200 * MIB)

static char configuration[64];
static const char *const options[] = {"--device-bytes", "256MiB", "--config", configuration, NULL};
static struct daemon gpumemd;
static struct holder one, other;

static void write_configuration(unsigned uid)
{
        FILE *file;
        int fd;

        (void)snprintf(configuration, sizeof(configuration), "/tmp/gpumem-legacy-XXXXXX");
        fd = mkostemp(configuration, O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        file = fdopen(fd, "w");
        ck_assert_int_gt(fprintf(file,
                                 "{\"user\": %u, \"pools\": [{\"device\": \"all\", "
                                 "\"ipc\": \"legacy\"}]}\n",
                                 uid),
                         0);
        ck_assert_int_eq(fclose(file), 0);
}

static void start(void)
{
        write_configuration(geteuid());
        daemon_start(&gpumemd, "devices=1,bytes=512MiB", options);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&one);
        holder_start(&other);
}

static void stop(void)
{
        holder_end(&one);
        holder_end(&other);
        daemon_await(FIGURE_charged, 0);
        daemon_stop(&gpumemd);
        (void)unlink(configuration);
}

static void have_idle(struct holder *holder)
{
        ck_assert_int_eq(holder_alloc(holder, MUCH, 0), 0);
        holder_free_all(holder);
        daemon_await(FIGURE_idle, MUCH);
}

START_TEST(allocations_of_all_sizes_hold_their_bytes)
{
        static const uint64_t n_bytes[] = {1, 512, 100000, 2 * MIB, 5 * MIB + 1, 40 * MIB};

        for (unsigned i = 0; i < 6; i++) {
                ck_assert_int_eq(holder_alloc(&one, n_bytes[i], 0), 0);
                ck_assert_int_eq(holder_alloc(&other, n_bytes[i], 0), 0);
        }
        holder_check(&one);
        holder_check(&other);
        holder_free_all(&one);
        holder_check(&other);
}
END_TEST

START_TEST(it_is_anothers_while_its_holder_stands_still)
{
        have_idle(&one);
        holder_stop(&one);
        ck_assert_int_eq(holder_alloc(&other, MUCH, 0), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
        holder_check(&other);
        holder_continue(&one);
        ck_assert_int_eq(holder_alloc(&one, MUCH / 2, 0), 0);
        holder_check(&one);
        holder_check(&other);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("live_legacy");
        TCase *tests = tcase_create("legacy");

        tcase_add_checked_fixture(tests, start, stop);
        tcase_set_timeout(tests, 60);
        tcase_add_test(tests, allocations_of_all_sizes_hold_their_bytes);
        tcase_add_test(tests, it_is_anothers_while_its_holder_stands_still);
        suite_add_tcase(suite, tests);
        return run_suite(suite);
}
