/* SPDX-License-Identifier: Apache-2.0 */
/* Makes each allocation of the daemon fail while it takes FREE_ALL and RECLAIM, whose answers come later: each has one
 * answer all the same. */
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/fault/rig.h"
#include "tests/live/worlds/frames_world.h"
#include "tests/suite.h"

static const enum message_kind kinds[] = {MESSAGE_FREE_ALL_BLOCKS, MESSAGE_RECLAIM};

static void start(void)
{
        char role[2] = {'0' + FAULT_DAEMON, '\0'};

        ck_assert_int_eq(setenv("GPUMEM_TEST_FAULT_ROLE", role, 1), 0);
        frames_start();
        ck_assert_int_eq(unsetenv("GPUMEM_TEST_FAULT_ROLE"), 0);
}

static struct frame request_of(enum message_kind kind)
{
        struct frame frame = FRAME_NULL;

        if (kind == MESSAGE_RECLAIM)
                frame.reclaim.uid = (uint32_t)getuid();
        else
                frame.free_all_blocks = (struct message_free_all_blocks){
                        .scope = GPUMEM_SCOPE_TENANT, .pool = PROTO_ALL_POOLS};
        return frame;
}

/* A second answer would come before the next request's. Returns whether the allocation has failed. */
static bool try(enum message_kind kind, uint32_t nth)
{
        const struct fault fault = {.role = FAULT_DAEMON, .call = FAULT_MEMORY, .nth = nth};
        struct frame frame = request_of(kind), answer;
        struct fdset fds = FDSET_NULL;
        int fd = connect_ready();

        rig_arm(&fault);
        send_frame(fd, &frame, kind, nth);
        ck_assert_int_eq(receive(fd, &answer, &fds), 0);
        rig_disarm();
        ck_assert_uint_eq(answer.serial, nth);
        must_serve(fd);
        closep(&fd);
        return atomic_load(&rig_page->n_fired);
}

START_TEST(whatever_fails_one_answer_comes)
{
        uint32_t n = 0;

        start();
        while (try(kinds[_i], n + 1))
                n++;
        ck_assert_uint_gt(n, 0);
        frames_stop();
}
END_TEST

int main(int n_arguments, char **arguments)
{
        Suite *suite = suite_create("answer_faults");
        TCase *tests = tcase_create("answer_faults");

        (void)n_arguments;
        tcase_set_timeout(tests, 60);
        /* Only root may send RECLAIM. */
        tcase_add_loop_test(tests, whatever_fails_one_answer_comes, 0, geteuid() ? 1 : 2);
        suite_add_tcase(suite, tests);
        return rig_run(suite, arguments);
}
