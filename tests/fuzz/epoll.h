/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's epoll sets, played: calls about them end in epoll.c. What is watched are the files of peers.h. A set tells
 * each event once, when it begins to stand (EPOLLET), when epoll_again says so, and no more often than that; with
 * EPOLLONESHOT one, and then none until it is asked again. One daemon at a time; one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

void epoll_begin(void);

/* Events that stand now and did not before are to be told. Call it whenever what is watched may have changed. */
void epoll_notice(void);

/* What stands of the file is told again: its peer has done something that the kernel wakes for. */
void epoll_again(int fd);

/* What is asked of the file; 0: it is in no set. */
uint32_t epoll_asked(int fd);

/* What stands and will be told of the file. */
uint32_t epoll_untold(int fd);
