/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem-share-demo: a process that shares memory or attaches it, controlled by lines on its standard
 * input. For the demo and the live tests. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/demo/share_memory.h"

static const char help_text[] =
        "Usage: gpumem-share-demo [--without-cuda] [--uid UID]\n"
        "Does what the lines of its input say, and answers each with one line: \"ok ...\",\n"
        "or \"error CODE: TEXT\".\n"
        "\n"
        "  alloc device|pinned BYTES   allocate memory that can be shared\n"
        "  attach device|pinned TOKEN  attach another process's; answers its bytes\n"
        "  share [UID]                 answers a token, for that user too\n"
        "  keep MS [UID]               the same; it is kept so long after this one\n"
        "  unshare TOKEN               withdraw it\n"
        "  fill SEED                   write all bytes\n"
        "  check SEED                  answers how many bytes are not what fill wrote\n"
        "  free, detach                end the allocation, or what was attached\n"
        "  quit                        as the end of the input\n"
        "\n"
        "  --without-cuda  use no device\n"
        "  --uid UID       become this user first\n";

struct demo {
        struct gpumem_client *client;
        struct gpu *gpu; /* NULL: without CUDA */
        struct share_memory memory;
};

static int use_kind(struct demo *demo, const char *kind)
{
        if (strcmp(kind, "pinned") && strcmp(kind, "device"))
                return -EINVAL;
        demo->memory.gpu = strcmp(kind, "device") ? NULL : demo->gpu;
        return 0;
}

static void *stream_of(const struct demo *demo)
{
        return demo->gpu ? gpu_stream(demo->gpu) : NULL;
}

static int allocate(struct demo *demo, const char *kind, const char *size)
{
        struct gpumem_request request = {
                .struct_size = sizeof(request),
                .kind = strcmp(kind, "device") ? GPUMEM_PINNED : GPUMEM_DEVICE,
                .place = GPUMEM_NEAREST,
                .stream = stream_of(demo),
                .n_bytes = strtoull(size, NULL, 10),
                .flags = GPUMEM_SHAREABLE,
        };
        void *pointer;
        int r = use_kind(demo, kind);

        if (!r)
                r = gpumem_alloc(demo->client, &request, &pointer);
        if (r)
                return r;
        demo->memory.bytes = pointer;
        demo->memory.n_bytes = request.n_bytes;
        (void)printf("ok\n");
        return 0;
}

static int attach(struct demo *demo, const char *kind, const char *text)
{
        struct gpumem_token token;
        uint64_t n_bytes;
        void *pointer;
        int r = use_kind(demo, kind);

        if (!r)
                r = gpumem_token_parse(text, &token);
        if (!r)
                r = gpumem_attach(demo->client, &token, &pointer, &n_bytes);
        if (r)
                return r;
        demo->memory.bytes = pointer;
        demo->memory.n_bytes = n_bytes;
        (void)printf("ok %" PRIu64 "\n", n_bytes);
        return 0;
}

static int share(struct demo *demo, const char *uid, const char *keep_ms)
{
        struct gpumem_share_options options = {
                .struct_size = sizeof(options),
                .flags = *uid ? GPUMEM_SHARE_GRANT : 0,
                .uid = (uint32_t)strtoul(uid, NULL, 10),
                .keep_ms = (uint32_t)strtoul(keep_ms, NULL, 10),
        };
        char text[GPUMEM_TOKEN_TEXT_BYTES];
        struct gpumem_token token;
        int r = gpumem_share(demo->client, demo->memory.bytes, &options, &token);

        if (!r)
                (void)printf("ok %s\n", gpumem_token_format(&token, text));
        return r;
}

static int said_ok(int r)
{
        if (!r)
                (void)printf("ok\n");
        return r;
}

static int unshare_it(struct demo *demo, const char *text)
{
        struct gpumem_token token;
        int r = gpumem_token_parse(text, &token);

        return said_ok(r ? r : gpumem_unshare(demo->client, &token));
}

static int check(const struct demo *demo, const char *seed)
{
        uint64_t n_wrong;
        int r = share_memory_check(&demo->memory, (unsigned)strtoul(seed, NULL, 10), &n_wrong);

        if (!r)
                (void)printf("ok %" PRIu64 "\n", n_wrong);
        return r;
}

static int obey(struct demo *demo, const char *word, const char *one, const char *two)
{
        if (!strcmp(word, "alloc"))
                return allocate(demo, one, two);
        if (!strcmp(word, "attach"))
                return attach(demo, one, two);
        if (!strcmp(word, "share"))
                return share(demo, one, "");
        if (!strcmp(word, "keep"))
                return share(demo, two, one);
        if (!strcmp(word, "unshare"))
                return unshare_it(demo, one);
        if (!strcmp(word, "fill"))
                return said_ok(share_memory_fill(&demo->memory, (unsigned)strtoul(one, NULL, 10)));
        if (!strcmp(word, "check"))
                return check(demo, one);
        if (!strcmp(word, "free"))
                return said_ok(gpumem_free(demo->client, demo->memory.bytes, stream_of(demo)));
        if (!strcmp(word, "detach"))
                return said_ok(gpumem_detach(demo->client, demo->memory.bytes, stream_of(demo)));
        return -EINVAL;
}

static void obey_all(struct demo *demo)
{
        char line[256];

        while (fgets(line, sizeof(line), stdin)) {
                char word[16] = "", one[64] = "", two[64] = "";
                int r;

                (void)sscanf(line, "%15s %63s %63s", word, one, two);
                if (!strcmp(word, "quit")) {
                        (void)said_ok(0);
                        return;
                }
                r = obey(demo, word, one, two);
                if (r)
                        (void)printf("error %d: %s\n", r, gpumem_strerror(r));
                (void)fflush(stdout);
        }
}

enum cuda_use { WITH_CUDA, WITHOUT_CUDA };

static int run(const char *uid, enum cuda_use use)
{
        struct demo demo = {.client = NULL};
        uid_t user = (uid_t)strtoul(uid ? uid : "0", NULL, 10);
        int r = 0;

        if (uid && setresuid(user, user, user) < 0)
                r = -errno;
        if (!r && use == WITH_CUDA)
                r = gpu_new(0, &demo.gpu);
        if (!r)
                r = gpumem_connect(NULL, &demo.client);
        if (!r)
                obey_all(&demo);
        else
                (void)fprintf(stderr, "gpumem-share-demo: %s\n", gpumem_strerror(r));
        gpumem_disconnect(demo.client);
        gpu_free(demo.gpu);
        return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
        const char *uid = NULL;
        enum cuda_use use = WITH_CUDA;

        for (int i = 1; i < argc; i++) {
                if (!strcmp(argv[i], "--without-cuda")) {
                        use = WITHOUT_CUDA;
                } else if (!strcmp(argv[i], "--uid") && i + 1 < argc) {
                        uid = argv[++i];
                } else if (!strcmp(argv[i], "--help")) {
                        return fputs(help_text, stdout) < 0;
                } else {
                        (void)fputs("gpumem-share-demo: see --help\n", stderr);
                        return 2;
                }
        }
        return run(uid, use);
}
