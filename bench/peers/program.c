#include "bench/peers/program.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

static const struct {
        const char *name;
        const char *script; /* NULL: this program */
} kinds[] = {
        [RIVAL_GPUMEMD] = {"gpumemd", NULL},
        [RIVAL_CLIENT] = {"client", NULL},
        [RIVAL_DRIVER] = {"cuMemAlloc", NULL},
        [RIVAL_ASYNC] = {"cuMemAllocAsync", NULL},
        [RIVAL_TORCH] = {"torch", "torch_cpp.py"},
        [RIVAL_TORCH_PYTHON] = {"torch", "torch_rival.py"},
        [RIVAL_TORCH_EXPANDABLE] = {"torch_expandable", "torch_rival.py"},
        [RIVAL_CUPY] = {"cupy", "cupy_rival.py"},
};

const char *rival_name(enum rival_kind kind)
{
        return kinds[kind].name;
}

static bool is_set_for(const char *variable, const char *name)
{
        size_t n = strlen(name);

        return strncmp(variable, name, n) == 0 && variable[n] == '=';
}

/* The user's own settings of PyTorch's allocator are not what is compared. */
static int make_environment(enum rival_kind kind, struct program *program)
{
        size_t n = 0, n_kept = 0;

        while (environ[n])
                n++;
        program->environment = calloc(n + 2, sizeof(*program->environment));
        if (!program->environment)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                if (!is_set_for(environ[i], "PYTORCH_CUDA_ALLOC_CONF") &&
                    !is_set_for(environ[i], "PYTORCH_ALLOC_CONF"))
                        program->environment[n_kept++] = environ[i];
        }
        if (kind == RIVAL_TORCH_EXPANDABLE)
                program->environment[n_kept] = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
        return 0;
}

static void find_own(enum rival_kind kind, const struct rival_setup *setup, struct program *program)
{
        const char *words[] = {"gpumem-bench", RIVAL_OPTION, kinds[kind].name, setup->socket_path};

        program->path = "/proc/self/exe";
        memcpy(program->arguments, words, sizeof(words));
}

static int find_script(enum rival_kind kind, const struct rival_setup *setup,
                       struct program *program)
{
        const char *words[] = {"python3", "-B", program->file, setup->folder};
        int n = snprintf(program->file, PROGRAM_PATH_MAX, "%s/%s", setup->scripts,
                         kinds[kind].script);

        program->path = words[0];
        memcpy(program->arguments, words, sizeof(words));
        return n < PROGRAM_PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* What has been compiled is run without Python: how long it takes to start is its own. */
static bool find_compiled(const struct rival_setup *setup, struct program *program)
{
        int n = snprintf(program->file, PROGRAM_PATH_MAX, "%s/%s", setup->folder,
                         RIVAL_TORCH_PROGRAM);

        if (n >= PROGRAM_PATH_MAX || access(program->file, X_OK) < 0)
                return false;
        program->path = program->arguments[0] = program->file;
        return true;
}

int program_find(enum rival_kind kind, const struct rival_setup *setup, struct program *ret_program,
                 char note[static ROW_NOTE_MAX])
{
        int r = 0;

        *ret_program = (struct program){.path = NULL};
        if (!kinds[kind].script) {
                find_own(kind, setup, ret_program);
        } else if (!setup->scripts) {
                (void)snprintf(note, ROW_NOTE_MAX, "not asked for: --peers says where it is");
                return -ENODEV;
        } else if (kind != RIVAL_TORCH || !find_compiled(setup, ret_program)) {
                r = find_script(kind, setup, ret_program);
        }
        if (!r)
                r = make_environment(kind, ret_program);
        if (r)
                (void)snprintf(note, ROW_NOTE_MAX, "%s", strerror(-r));
        return r;
}

void program_deinit(struct program *program)
{
        free(program->environment);
        program->environment = NULL;
}
