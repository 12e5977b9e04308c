/* SPDX-License-Identifier: Apache-2.0 */
/* A page that is missing until the test provides it: a write from it to a file holds the file's lock until then. */
#pragma once

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdset.h"
#include "tests/suite.h"

#define MISSING_PAGE_BYTES 4096

struct missing_page {
        void *bytes;
        int faults;
        int fd; /* the file */
        pthread_t thread;
};

static inline void *missing_page_write(void *argument)
{
        const struct missing_page *page = argument;

        (void)!pwrite(page->fd, page->bytes, 1, 0);
        return NULL;
}

/* False: userfaultfd is not allowed here, and nothing holds the lock. The file stays the caller's. */
static inline bool missing_page_hold(struct missing_page *page, int fd)
{
        struct uffdio_api api = {.api = UFFD_API};
        struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
        struct uffd_msg message;

        page->fd = fd;
        page->faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
        if (page->faults < 0) {
                (void)printf("# userfaultfd is not allowed here: nothing holds a file's lock\n");
                return false;
        }
        page->bytes = mmap(NULL, MISSING_PAGE_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert_ptr_ne(page->bytes, MAP_FAILED);
        range.range.start = (uintptr_t)page->bytes;
        range.range.len = MISSING_PAGE_BYTES;
        ck_assert_int_eq(ioctl(page->faults, UFFDIO_API, &api), 0);
        ck_assert_int_eq(ioctl(page->faults, UFFDIO_REGISTER, &range), 0);
        ck_assert_int_eq(pthread_create(&page->thread, NULL, missing_page_write, page), 0);
        ck_assert_int_eq(read(page->faults, &message, sizeof(message)), sizeof(message));
        return true;
}

/* The write goes on, and ends. */
static inline void missing_page_provide(struct missing_page *page)
{
        struct uffdio_zeropage zero = {.range = {(uintptr_t)page->bytes, MISSING_PAGE_BYTES}};

        ck_assert_int_eq(ioctl(page->faults, UFFDIO_ZEROPAGE, &zero), 0);
        ck_assert_int_eq(pthread_join(page->thread, NULL), 0);
        closep(&page->faults);
        ck_assert_int_eq(munmap(page->bytes, MISSING_PAGE_BYTES), 0);
}
