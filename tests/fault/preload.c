/* SPDX-License-Identifier: Apache-2.0 */
/* libfault.so, to be preloaded: makes calls of the program fail as page.h says, and counts what memory the
 * program has. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fault/live_set.h"
#include "tests/fault/page.h"

#define EXPORTED __attribute__((visibility("default")))
#define CALLER   ((uintptr_t)__builtin_return_address(0))

void *__libc_malloc(size_t n_bytes);
void *__libc_calloc(size_t n, size_t n_bytes);
void *__libc_realloc(void *piece, size_t n_bytes);
void *__libc_memalign(size_t alignment, size_t n_bytes);
void __libc_free(void *piece);

EXPORTED struct fault_page *fault_page;

static enum fault_role own_role;
static uintptr_t program_start, program_end;
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;

/* The program is the first of the list. */
static int find_program(struct dl_phdr_info *object, size_t n_bytes, void *argument)
{
        (void)n_bytes;
        (void)argument;
        program_start = UINTPTR_MAX;
        for (unsigned i = 0; i < object->dlpi_phnum; i++) {
                uintptr_t start = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;

                if (object->dlpi_phdr[i].p_type != PT_LOAD)
                        continue;
                if (start < program_start)
                        program_start = start;
                if (start + object->dlpi_phdr[i].p_memsz > program_end)
                        program_end = start + object->dlpi_phdr[i].p_memsz;
        }
        return 1;
}

static bool is_counted(uintptr_t caller)
{
        return own_role && caller >= program_start && caller < program_end;
}

static bool fails(enum fault_call call, uintptr_t caller)
{
        uint32_t n;

        if (!is_counted(caller) || !atomic_load(&fault_page->armed))
                return false;
        n = atomic_fetch_add(&fault_page->n_calls[own_role][call], 1) + 1;
        if (atomic_load(&fault_page->armed) != own_role || atomic_load(&fault_page->call) != call ||
            atomic_load(&fault_page->nth) != n)
                return false;
        atomic_fetch_add(&fault_page->n_fired, 1);
        return true;
}

static void *note_live(void *piece, uintptr_t caller)
{
        if (!piece || !is_counted(caller))
                return piece;
        pthread_mutex_lock(&live_lock);
        atomic_fetch_add(&fault_page->n_live[own_role], live_set_add(piece));
        pthread_mutex_unlock(&live_lock);
        return piece;
}

static bool note_gone(const void *piece)
{
        bool was_there;

        if (!piece || !own_role)
                return false;
        pthread_mutex_lock(&live_lock);
        was_there = live_set_remove(piece);
        atomic_fetch_sub(&fault_page->n_live[own_role], was_there);
        pthread_mutex_unlock(&live_lock);
        return was_there;
}

EXPORTED void fault_become(enum fault_role role)
{
        pthread_mutex_init(&live_lock, NULL);
        live_set_clear();
        atomic_store(&fault_page->n_live[role], 0);
        own_role = role;
}

static __attribute__((constructor)) void begin(void)
{
        const char *path = getenv("GPUMEM_TEST_FAULT_PAGE");
        const char *role = getenv("GPUMEM_TEST_FAULT_ROLE");
        int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
        void *page;

        if (fd < 0)
                return;
        page = mmap(NULL, sizeof(*fault_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        (void)close(fd);
        if (page == MAP_FAILED)
                return;
        (void)dl_iterate_phdr(find_program, NULL);
        fault_page = page;
        if (role)
                fault_become((enum fault_role)atoi(role));
}

EXPORTED void *malloc(size_t n_bytes)
{
        if (fails(FAULT_MEMORY, CALLER)) {
                errno = ENOMEM;
                return NULL;
        }
        return note_live(__libc_malloc(n_bytes), CALLER);
}

EXPORTED void *calloc(size_t n, size_t n_bytes)
{
        if (fails(FAULT_MEMORY, CALLER)) {
                errno = ENOMEM;
                return NULL;
        }
        return note_live(__libc_calloc(n, n_bytes), CALLER);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t n_bytes)
{
        if (fails(FAULT_MEMORY, CALLER)) {
                errno = ENOMEM;
                return NULL;
        }
        return note_live(__libc_memalign(alignment, n_bytes), CALLER);
}

static void *resize(void *piece, size_t n_bytes, uintptr_t caller)
{
        bool was_there;
        void *new_piece;

        if (fails(FAULT_MEMORY, caller)) {
                errno = ENOMEM;
                return NULL;
        }
        /* Once it is free another thread may get it. */
        was_there = note_gone(piece);
        new_piece = __libc_realloc(piece, n_bytes);
        if (!new_piece && was_there)
                (void)note_live(piece, program_start);
        return note_live(new_piece, caller);
}

EXPORTED void *realloc(void *piece, size_t n_bytes)
{
        return resize(piece, n_bytes, CALLER);
}

EXPORTED void *reallocarray(void *piece, size_t n, size_t n_bytes)
{
        if (n_bytes && n > SIZE_MAX / n_bytes) {
                errno = ENOMEM;
                return NULL;
        }
        return resize(piece, n * n_bytes, CALLER);
}

EXPORTED char *strdup(const char *text)
{
        size_t n_bytes = strlen(text) + 1;
        char *copy = fails(FAULT_MEMORY, CALLER) ? NULL : __libc_malloc(n_bytes);

        if (!copy) {
                errno = ENOMEM;
                return NULL;
        }
        return memcpy(note_live(copy, CALLER), text, n_bytes);
}

EXPORTED void free(void *piece)
{
        int saved = errno;

        (void)note_gone(piece);
        __libc_free(piece);
        errno = saved;
}

/* Their third argument is there or not; passing one that is not does no harm. */
EXPORTED int fcntl(int fd, int command, ...)
{
        static int (*real)(int fd, int command, ...);
        va_list arguments;
        void *argument;

        va_start(arguments, command);
        argument = va_arg(arguments, void *);
        va_end(arguments);
        if (!real)
                real = (__typeof__(real))dlsym(RTLD_NEXT, "fcntl64");
        if (fails(FAULT_FCNTL, CALLER)) {
                errno = EPERM;
                return -1;
        }
        return real(fd, command, argument);
}

EXPORTED int open(const char *path, int flags, ...)
{
        static int (*real)(const char *path, int flags, ...);
        va_list arguments;
        mode_t mode;

        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
        if (!real)
                real = (__typeof__(real))dlsym(RTLD_NEXT, "open64");
        if (fails(FAULT_OPEN, CALLER)) {
                errno = EMFILE;
                return -1;
        }
        return real(path, flags, mode);
}

#define CALL(type, name, failure, error, other, parameters, arguments)                       \
        EXPORTED type name parameters                                                        \
        {                                                                                    \
                static type(*real) parameters;                                               \
                                                                                             \
                if (!real)                                                                   \
                        real = (__typeof__(real))dlsym(RTLD_NEXT, linked(#name));            \
                if (fails(FAULT_##name, CALLER)) {                                           \
                        int error_ = atomic_load(&fault_page->is_other) ? (other) : (error); \
                                                                                             \
                        errno = error_;                                                      \
                        return failure;                                                      \
                }                                                                            \
                return real arguments;                                                       \
        }

/* Files are large in these programs. */
static const char *linked(const char *name)
{
        static const char *const names[][2] = {{"mmap", "mmap64"},
                                               {"ftruncate", "ftruncate64"},
                                               {"fallocate", "fallocate64"},
                                               {"fstat", "fstat64"},
                                               {"pwrite", "pwrite64"}};

        for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                if (strcmp(names[i][0], name) == 0)
                        return names[i][1];
        }
        return name;
}

int uv_poll_init(void *loop, void *poll, int fd);
#include "tests/fault/calls.def"
