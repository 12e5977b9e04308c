/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what this process holds of the nearest pinned memory, in all and by tag, and what a pointer is. */
#include <gpumem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)   check((call), #call)
#define N_FIGURES_MAX 32

static void check(int result, const char *call)
{
        if (result == 0)
                return;
        (void)fprintf(stderr, "%s: %s\n", call, gpumem_strerror(result));
        exit(EXIT_FAILURE);
}

static void print_stats(void)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};

        CHECK(gpumem_get_stats(NULL, GPUMEM_PINNED, GPUMEM_NEAREST, &stats));
        printf("%llu bytes requested, %llu at the peak, %llu reserved in %llu blocks\n",
               (unsigned long long)stats.n_requested_bytes,
               (unsigned long long)stats.n_requested_peak_bytes,
               (unsigned long long)stats.n_reserved_bytes, (unsigned long long)stats.n_blocks);
}

/* The same and more by name. A later library may have more names. */
static void print_figures(void)
{
        const char *names[N_FIGURES_MAX];
        uint64_t values[N_FIGURES_MAX];
        size_t n;

        CHECK(gpumem_get_figures(NULL, GPUMEM_PINNED, GPUMEM_NEAREST, names, values, N_FIGURES_MAX,
                                 &n));
        for (size_t i = 0; i < n && i < N_FIGURES_MAX; i++)
                printf("  %-24s %llu\n", names[i], (unsigned long long)values[i]);
}

static void print_tag(const char *tag)
{
        struct gpumem_tag_stats stats = {.struct_size = sizeof(stats)};

        CHECK(gpumem_get_tag_stats(NULL, tag, &stats));
        printf("%s: %llu allocations, %llu of them live with %llu bytes\n", tag,
               (unsigned long long)stats.n_allocations, (unsigned long long)stats.n_live,
               (unsigned long long)stats.n_requested_bytes);
}

static void print_pointer(const char *pointer)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        CHECK(gpumem_describe(NULL, pointer, &info));
        printf("the pointer is %td bytes into an allocation of %llu bytes on NUMA node %d\n",
               pointer - (const char *)info.base, (unsigned long long)info.n_requested_bytes,
               info.place);
}

int main(void)
{
        void *weights, *scratch;

        CHECK(gpumem_set_tag(NULL, "weights"));
        CHECK(gpumem_malloc_pinned(100000, &weights));
        CHECK(gpumem_set_tag(NULL, "scratch"));
        CHECK(gpumem_malloc_pinned(50000, &scratch));
        CHECK(gpumem_set_tag(NULL, NULL));
        CHECK(gpumem_free(NULL, scratch, NULL));

        print_stats();
        CHECK(gpumem_reset_peaks(NULL, GPUMEM_PINNED, GPUMEM_NEAREST));
        print_stats();
        print_figures();
        print_tag("weights");
        print_tag("scratch");
        print_pointer((const char *)weights + 4096);
        CHECK(gpumem_free(NULL, weights, NULL));
        return 0;
}
