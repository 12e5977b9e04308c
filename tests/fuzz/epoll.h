/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's epoll sets, played: calls about them end in epoll.c. What is watched are the files of peers.h, and sets. A
 * set tells each event once, when it begins to stand (EPOLLET), and no more often than that. One daemon at a time; one
 * thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

void epoll_begin(void);

/* Events that stand now and did not before are to be told. Call it whenever what is watched may have changed. */
void epoll_notice(void);

/* What is asked of the file; 0: it is in no set. */
uint32_t epoll_asked(int fd);

/* What stands and will be told of the file. */
uint32_t epoll_untold(int fd);
