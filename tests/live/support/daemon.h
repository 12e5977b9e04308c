/* SPDX-License-Identifier: Apache-2.0 */
/* A gpumemd of a test's own, in a folder of its own. Failures end the test. Program and driver come
 * from the environment: GPUMEM_TEST_DAEMON, GPUMEM_CUDA_LIBRARY; the driver is the emulated one, or
 * a GPU's. */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/connection/link.h"

struct daemon {
        char place[128];
        char socket[160];
        pid_t pid;
        unsigned n_fds; /* as noted, or 0 */
};

/* The test's own daemon. */
extern struct daemon gpumemd;

/* Options of gpumemd for the functions below. */
#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Root may become other users; no other user may. */
bool is_root(void);
#define NEEDS_ROOT .can_run = is_root, .needs = "root"

/* Some properties hold on the emulated driver only, and are tested only there. */
bool machine_is_emulated(void);
#define NEEDS_EMULATOR .can_run = machine_is_emulated, .needs = "the emulated driver"

/* GPUMEM_TEST_DEVICES, 1 or 2; 2 if it is not set. */
unsigned machine_n_devices(void);
bool machine_has_two_devices(void);
#define NEEDS_TWO_DEVICES .can_run = machine_has_two_devices, .needs = "a second device"

bool is_root_on_emulator(void);
#define NEEDS_ROOT_AND_EMULATOR \
        .can_run = is_root_on_emulator, .needs = "root, and the emulated driver"

/* Also sets GPUMEM_SOCKET for this process, and GPUMEM_EMULATOR if the machine is emulated. `options` ends
 * with NULL. */
void daemon_start(struct daemon *daemon, const char *emulator, const char *const *options);

/* The same with a configuration. */
void daemon_start_configured(struct daemon *daemon, const char *emulator,
                             const char *const *options, const char *configuration);

/* The same without waiting until this process is served, which may never happen. */
void daemon_launch(struct daemon *daemon, const char *emulator, const char *const *options,
                   const char *configuration);

/* Writes another configuration, which the daemon reads at once. */
void daemon_configure(struct daemon *daemon, const char *configuration);

/* SIGTERM; the daemon must end in order. Removes the folder. */
void daemon_stop(struct daemon *daemon);

/* Waits until no client is charged, and has every cached block given back: none is left then. */
void daemon_expect_empty(void);

/* Closes this process's connections, does the same, and stops the daemon. It must have as many fds open as
 * were noted, if any were. */
void daemon_note_fds(struct daemon *daemon);
void daemon_stop_empty(struct daemon *daemon);

/* Fixtures. Starts the test's own with one device of 256 MiB, and notes its fds. */
void gpumemd_start(void);

/* Stop the daemon: at once; when no client is charged; or like daemon_stop_empty. */
void gpumemd_stop(void);
void gpumemd_stop_uncharged(void);
void gpumemd_stop_empty(void);

/* Lets every user connect. */
void daemon_admit_all(const struct daemon *daemon);

/* SIGKILL; nothing is removed. daemon_restart or daemon_clear must follow. */
void daemon_kill(struct daemon *daemon);
/* Starts the next daemon in the same place, after daemon_kill. `visible` lists its devices, as in
 * CUDA_VISIBLE_DEVICES; NULL: all. */
void daemon_restart(struct daemon *daemon, const char *visible, const char *const *options);
void daemon_clear(struct daemon *daemon);

/* Whether this fd is a connection to the test's daemon; and closes all of these. */
bool is_connection(int fd);
void hang_up(void);

/* SIGSTOP, and waits until it has stopped; SIGCONT. */
void daemon_suspend(const struct daemon *daemon);
void daemon_resume(const struct daemon *daemon);

/* Without the files in stock, of which clients have some, and the daemon makes more in its own time; and without boards. */
unsigned daemon_count_fds(const struct daemon *daemon);

/* All that it has open. */
unsigned daemon_count_files(const struct daemon *daemon);

/* Files of boards that it has open: those in stock, and those of clients. */
unsigned daemon_count_boards(const struct daemon *daemon);

/* The same, once it has not changed for a while in which the process was idle: ended connections are closed
 * by then. */
unsigned daemon_quiet_fds(const struct daemon *daemon);

/* The emulated driver of that process has these faults from now on, one a line, and no other process has
 * any; see driver/emulator/machine/fault_rules.h. */
void daemon_fault(const struct daemon *daemon, pid_t pid, const char *faults);

/* Sets what the emulated NVML reports from now on; see driver/emulator/nvml/nvml_state.h. */
void daemon_nvml(const struct daemon *daemon, const char *lines);

/* Bytes of the first device, as the daemon reports them. */
uint64_t daemon_device_bytes(void);

/* The admin socket's path of the daemon that GPUMEM_SOCKET names. */
const char *daemon_admin_socket(void);

/* Gives every cached block back to the driver. */
void daemon_free_all(void);

/* A statistic of stats.def, added up over the pools, over a connection of its own. */
enum figure {
#define STAT(field, unit, text) FIGURE_##field,
#include "proto/stats.def"
#undef STAT
};
uint64_t daemon_figure(enum figure figure);

/* The same for the first pool only, that of the first device. */
uint64_t daemon_first_figure(enum figure figure);

/* The figures of its loop. */
struct message_loop_is daemon_loop(void);

/* Waits up to 20 s until a statistic has this value; and the first pool's. */
void daemon_await(enum figure figure, uint64_t value);
void daemon_await_first(enum figure figure, uint64_t low, uint64_t high);

/* Counts this process's open fds. */
unsigned own_fds(void);

void sleep_ms(unsigned ms);

/* For conditions that become true later. */
#define AWAIT_MS 20000
#define AWAIT(condition)                                                 \
        do {                                                             \
                unsigned waited_ms = 0;                                  \
                bool is_so;                                              \
                                                                         \
                while (!(is_so = (condition)) && waited_ms++ < AWAIT_MS) \
                        sleep_ms(1);                                     \
                ck_assert_msg(is_so, "%s is not so", #condition);        \
        } while (0)

/* A child of the test ends by itself, with this wait status; or is killed at once, by SIGKILL. */
void child_await(pid_t pid, int status);
void child_kill(pid_t pid);
