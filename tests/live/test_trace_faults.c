/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a program from being recorded is told, and the program goes on. */
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/live/daemon.h"
#include "tests/live/recorded.h"
#include "tests/suite.h"

static void check_said_once(const char *text)
{
        const char *first = strstr(recorded_said, text);

        ck_assert_msg(first, "\"%s\" is not in \"%s\"", text, recorded_said);
        ck_assert_ptr_null(strstr(first + 1, "GPUMEM_TRACE"));
}

START_TEST(a_full_disk_ends_the_recording_and_not_the_program)
{
        recorded_run(recorded_hurry, "/dev/full");
        check_said_once("GPUMEM_TRACE: /dev/full: No space left on device; recording has stopped");
}
END_TEST

/* As many bytes as a file may have here: what is there of it is whole lines. */
static void hurry_to_the_limit(void)
{
        const struct rlimit limit = {.rlim_cur = 300000, .rlim_max = 300000};

        MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        recorded_hurry();
}

START_TEST(what_a_full_disk_leaves_is_whole_lines)
{
        struct sums sums;

        if (!machine_is_emulated())
                return;
        recorded_name("x.trace");
        recorded_run(hurry_to_the_limit, recorded_path);
        check_said_once("File too large; recording has stopped");
        sums = recorded_sums();
        ck_assert_uint_gt(sums.n_allocated, 1000);
        ck_assert_uint_lt(sums.n_allocated, HURRY_PAIRS);
}
END_TEST

/* Takes what comes through the fifo, from the moment on at which `go` ends. */
static void read_late(char *fifo, int go)
{
        int fd = open(fifo, O_RDONLY);
        char byte;

        MUST(fd >= 0 && dup2(fd, STDIN_FILENO) == STDIN_FILENO);
        MUST(chdir(dirname(fifo)) == 0 && read(go, &byte, 1) == 0);
        MUST(system("cat >part && mv part copy") == 0);
}

static void hurry_past_a_reader(void)
{
        int go[2];
        pid_t pid;

        MUST(pipe(go) == 0);
        pid = fork();
        MUST(pid >= 0);
        if (pid == 0) {
                (void)close(go[1]);
                read_late(recorded_path, go[0]);
                _exit(0);
        }
        recorded_hurry();
        (void)close(go[1]);
}

static uint64_t read_missing(void)
{
        char line[200];
        unsigned long long n_allocated, n_freed, n_missing = 0;
        FILE *file = fopen(recorded_path, "re");

        ck_assert_ptr_nonnull(file);
        while (fgets(line, sizeof(line), file)) {
                if (line[0] == '#')
                        (void)sscanf(line, "# end: %llu allocations, %llu frees; %llu calls",
                                     &n_allocated, &n_freed, &n_missing);
        }
        (void)fclose(file);
        return n_missing;
}

START_TEST(what_a_file_that_hangs_costs_is_counted)
{
        uint64_t n_missing;
        struct sums sums;

        recorded_name("x.fifo");
        ck_assert_int_eq(mkfifo(recorded_path, 0600), 0);
        recorded_run(hurry_past_a_reader, recorded_path);
        (void)unlink(recorded_path);
        recorded_name("copy");
        while (access(recorded_path, R_OK) != 0)
                sleep_ms(1);
        n_missing = read_missing();
        sums = recorded_sums();
        ck_assert_uint_gt(n_missing, 0);
        ck_assert_uint_eq(sums.n_allocated + sums.n_freed + n_missing, 2 * HURRY_PAIRS);
}
END_TEST

START_TEST(a_file_that_cannot_be_made_is_told)
{
        recorded_run(recorded_hurry, "/nowhere/x.trace");
        check_said_once("GPUMEM_TRACE: /nowhere/x.trace: No such file or directory; nothing is "
                        "recorded");
}
END_TEST

static void run_another(void)
{
        pid_t pid;
        int status;

        recorded_connect();
        (void)recorded_alloc(recorded_gpu(), 1000);
        gpumem_disconnect(recorded_client);
        pid = fork();
        MUST(pid >= 0);
        if (pid == 0) {
                (void)execl("/proc/self/exe", "another", "connect", (char *)NULL);
                _exit(127);
        }
        MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

START_TEST(processes_do_not_share_a_file)
{
        struct sums sums;

        recorded_name("x.trace");
        recorded_run(run_another, recorded_path);
        check_said_once("another process records there");
        sums = recorded_sums();
        ck_assert_uint_eq(sums.n_allocated, 1);
}
END_TEST

static void name_by_number(void)
{
        char folder[sizeof(recorded_path)];

        strcpy(folder, recorded_path);
        (void)snprintf(recorded_path, sizeof(recorded_path), "%s/x%d%%", dirname(folder),
                       (int)getpid());
        recorded_connect();
        MUST(access(recorded_path, W_OK) == 0);
        MUST(unlink(recorded_path) == 0);
}

START_TEST(a_name_can_have_the_processs_number)
{
        recorded_name("x%p%");
        recorded_run(name_by_number, recorded_path);
        ck_assert_str_eq(recorded_said, "");
}
END_TEST

int main(int n_arguments, char **arguments)
{
        Suite *suite;
        TCase *tcase;

        /* The other process. */
        if (n_arguments == 2 && strcmp(arguments[1], "connect") == 0) {
                recorded_connect();
                return 0;
        }
        suite = suite_create("trace_faults");
        tcase = tcase_create("trace_faults");
        tcase_set_timeout(tcase, 120);
        tcase_add_checked_fixture(tcase, recorded_start, recorded_stop);
        tcase_add_test(tcase, a_full_disk_ends_the_recording_and_not_the_program);
        tcase_add_test(tcase, what_a_full_disk_leaves_is_whole_lines);
        tcase_add_test(tcase, what_a_file_that_hangs_costs_is_counted);
        tcase_add_test(tcase, a_file_that_cannot_be_made_is_told);
        tcase_add_test(tcase, processes_do_not_share_a_file);
        tcase_add_test(tcase, a_name_can_have_the_processs_number);
        suite_add_tcase(suite, tcase);
        return run_suite(suite);
}
