/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a target over its corpus, and over changes of that which depend on a seed only.
 *
 *   replay CORPUS [FILE...]
 *
 * CORPUS has inputs in hexadecimal digits, with a space or the end of a line behind each. With FILEs these are run
 * instead, as they are: what a fuzzer has found. */
#include <ctype.h>
#include <inttypes.h>

#include "tests/fuzz/fuzz.h"
#include "tests/random.h"

#define N_INPUTS_MAX  1024
#define N_BYTES_MAX   4096
#define N_CHANGES_MAX 8
#define N_RUNS        20000

static struct {
        uint8_t bytes[N_BYTES_MAX];
        size_t n;
} corpus[N_INPUTS_MAX];
static size_t n_inputs;

static int digit(int c)
{
        if (!isxdigit(c))
                return -1;
        return isdigit(c) ? c - '0' : tolower(c) - 'a' + 10;
}

static bool read_input(FILE *file)
{
        size_t n = 0;
        int high, low;

        while ((high = digit(fgetc(file))) >= 0 && (low = digit(fgetc(file))) >= 0) {
                FUZZ_EXPECT(n < N_BYTES_MAX);
                corpus[n_inputs].bytes[n++] = (uint8_t)(high << 4 | low);
        }
        corpus[n_inputs].n = n;
        return n > 0;
}

static bool read_corpus(const char *path)
{
        FILE *file = fopen(path, "re");

        if (!file)
                return false;
        while (n_inputs < N_INPUTS_MAX && read_input(file))
                n_inputs++;
        (void)fclose(file);
        return n_inputs > 0;
}

/* A copy of just that size: what is read beyond it, the address sanitizer sees. */
static enum fuzz_outcome run_copy(const uint8_t *bytes, size_t n)
{
        uint8_t *copy = malloc(n ? n : 1);
        enum fuzz_outcome outcome;

        FUZZ_EXPECT(copy);
        memcpy(copy, bytes, n);
        outcome = fuzz_run(copy, n);
        free(copy);
        return outcome;
}

static void insert(uint8_t *bytes, size_t *n, size_t at, uint8_t byte)
{
        if (*n == N_BYTES_MAX)
                return;
        memmove(bytes + at + 1, bytes + at, *n - at);
        bytes[at] = byte;
        (*n)++;
}

/* From another input on, so that deeds of both follow each other. */
static void splice(struct test_random *random, uint8_t *bytes, size_t *n, size_t at)
{
        size_t other = test_random_below(random, n_inputs);
        size_t from = test_random_below(random, corpus[other].n);
        size_t n_more = corpus[other].n - from;

        if (n_more > N_BYTES_MAX - at)
                n_more = N_BYTES_MAX - at;
        memcpy(bytes + at, corpus[other].bytes + from, n_more);
        *n = at + n_more;
}

static void change(struct test_random *random, uint8_t *bytes, size_t *n)
{
        static const uint8_t edges[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
        size_t at = test_random_below(random, *n);

        switch (test_random_below(random, 6)) {
        case 0:
                bytes[at] ^= (uint8_t)(1u << test_random_below(random, 8));
                break;
        case 1:
                bytes[at] = (uint8_t)test_random_next(random);
                break;
        case 2:
                bytes[at] = edges[test_random_below(random, sizeof(edges))];
                break;
        case 3:
                insert(bytes, n, at, (uint8_t)test_random_next(random));
                break;
        case 4:
                if (*n > 1) {
                        memmove(bytes + at, bytes + at + 1, *n - at - 1);
                        (*n)--;
                }
                break;
        default:
                splice(random, bytes, n, at);
                break;
        }
}

static enum fuzz_outcome run_change(struct test_random *random)
{
        size_t which = test_random_below(random, n_inputs);
        size_t n = corpus[which].n;
        uint8_t bytes[N_BYTES_MAX];

        memcpy(bytes, corpus[which].bytes, n);
        for (uint64_t i = 1 + test_random_below(random, N_CHANGES_MAX); i > 0; i--)
                change(random, bytes, &n);
        return run_copy(bytes, n);
}

static int run_files(char **paths)
{
        static uint8_t bytes[1 << 20];

        for (; *paths; paths++) {
                FILE *file = fopen(*paths, "re");
                size_t n;

                if (!file) {
                        perror(*paths);
                        return EXIT_FAILURE;
                }
                n = fread(bytes, 1, sizeof(bytes), file);
                (void)fclose(file);
                (void)printf("%s: %s\n", *paths,
                             run_copy(bytes, n) == FUZZ_TAKEN ? "taken" : "refused");
        }
        return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
        uint64_t n_runs = test_number_from_environment("GPUMEM_TEST_STEPS", N_RUNS);
        struct test_random random;
        uint64_t n_taken = 0;
        bool enough;

        if (argc < 2 || !read_corpus(argv[1])) {
                (void)fprintf(stderr, "usage: %s CORPUS [FILE...]\n", argv[0]);
                return 2;
        }
        if (argc > 2)
                return run_files(argv + 2);
        for (size_t i = 0; i < n_inputs; i++)
                (void)run_copy(corpus[i].bytes, corpus[i].n);
        (void)printf("ok 1 - %s: %zu inputs of the corpus\n", fuzz_name, n_inputs);
        random = test_random_begin();
        for (uint64_t i = 0; i < n_runs; i++)
                n_taken += run_change(&random) == FUZZ_TAKEN;
        (void)printf("ok 2 - %s: %" PRIu64 " changes of them\n", fuzz_name, n_runs);
        enough = n_taken * 100 >= n_runs * FUZZ_TAKEN_PERCENT_MIN;
        (void)printf("%sok 3 - %s: %" PRIu64 " of these were taken\n1..3\n", enough ? "" : "not ",
                     fuzz_name, n_taken);
        return enough ? EXIT_SUCCESS : EXIT_FAILURE;
}
