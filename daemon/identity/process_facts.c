/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/identity/process_facts.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "daemon/identity/peer.h"

static void read_program(pid_t pid, char program[static PROCESS_PROGRAM_MAX])
{
        char path[32], text[TEXT_BYTES];

        (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
        if (text_read(path, text))
                (void)snprintf(text, sizeof(text), "?");
        text[strcspn(text, "\n")] = '\0';
        (void)snprintf(program, PROCESS_PROGRAM_MAX, "%.*s", PROCESS_PROGRAM_MAX - 1, text);
}

void process_facts_read(pid_t pid, struct process_facts *ret_facts)
{
        struct process_facts facts;
        struct stat status;
        char path[32];

        memset(&facts, 0, sizeof(facts));
        (void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
        facts.is_there = stat(path, &status) == 0;
        if (facts.is_there) {
                facts.uid = status.st_uid;
                facts.container_fault = peer_find_container(pid, facts.container);
                read_program(pid, facts.program);
        }
        memcpy(ret_facts, &facts, sizeof(facts));
}
