/* SPDX-License-Identifier: Apache-2.0 */
/* Whose memory is whose: it is counted once, however many import it, and until the last of them ends. Whom
 * NVML bills for it is told as a figure, where GPUMEM_TEST_NVML names the program that asks NVML. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/contract/contract.h"

#define FD    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define MIB   ((size_t)1 << 20)
#define LARGE (256 * MIB)

/* What a mapping may cost beside the memory, and others may take meanwhile. */
#define LITTLE (32 * MIB)

static void creator(int socket)
{
        (void)contract_context();
        contract_send(socket, 'c', contract_export(contract_create(LARGE, FD)));
        (void)contract_receive(socket, 'x');
}

static void importer(int socket)
{
        struct contract_block block;
        int fd;

        (void)contract_context();
        contract_send(socket, 'i', -1);
        fd = contract_receive(socket, 'm');
        block = contract_map(contract_import(fd), LARGE);
        (void)close(fd);
        ck_ok(cu.cuMemsetD8(block.address, 1, LARGE));
        ck_ok(cu.cuCtxSynchronize());
        contract_send(socket, 'm', -1);
        (void)contract_receive(socket, 'x');
}

/* The last column of `gpumem-nvml PID`: "-" if NVML does not list the process. */
static void tell_bill(const char *whose, pid_t pid)
{
        const char *program = getenv("GPUMEM_TEST_NVML");
        char command[512], line[128], own[64];
        FILE *said;

        if (!program)
                return;
        (void)snprintf(command, sizeof(command), "exec '%s' %d 2>/dev/null", program, (int)pid);
        said = popen(command, "re");
        if (said && fgets(line, sizeof(line), said) && sscanf(line, "%*s %*s %63s", own) == 1)
                (void)printf("# figure: NVML bills %s: %s bytes\n", whose, own);
        (void)fflush(stdout);
        if (said)
                (void)pclose(said);
}

TEST(memory_is_counted_once_and_until_its_last_holder_ends)
{
        struct contract_peer owner = contract_start(creator), other = contract_start(importer);
        size_t n_created, n_imported, n_orphaned;
        int n_looks = 0, fd;

        (void)contract_receive(other.socket, 'i');
        fd = contract_receive(owner.socket, 'c');
        (void)contract_context();
        n_created = contract_free_bytes();
        tell_bill("who has created 256 MiB and has a context", owner.pid);
        tell_bill("who has a context", other.pid);
        contract_send(other.socket, 'm', fd);
        (void)close(fd);
        (void)contract_receive(other.socket, 'm');
        n_imported = contract_free_bytes();
        ck_assert_uint_ge(n_imported + LITTLE, n_created);
        tell_bill("who has imported the 256 MiB", other.pid);
        contract_kill(&owner);
        tell_bill("who has imported the 256 MiB, their creator dead", other.pid);
        n_orphaned = contract_free_bytes();
        contract_kill(&other);
        while (contract_free_bytes() < n_orphaned + LARGE)
                contract_pause(&n_looks);
}

CONTRACT_MAIN("billing")
