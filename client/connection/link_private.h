/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a link: for link.c and link_open.c only. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/connection/link.h"
#include "client/runtime/fork_guard.h"

struct waiter;

struct link {
        struct fork_socket socket;
        pthread_mutex_t send_lock; /* one frame at a time; taken before `lock` */
        pthread_mutex_t lock;      /* guards what follows */
        pthread_cond_t news;       /* an answer came, or no thread reads any more */
        LIST_HEAD(, waiter) waiters;
        unsigned n_leases; /* waiters for a LEASE */
        uint32_t last_serial;
        void (*notice)(void *owner, const struct message_notice *notice);
        void *owner;
        struct frame refusal;              /* the last one; kind 0: there was none */
        char last_words[LINK_REFUSAL_MAX]; /* why the daemon ended the connection, if it said so */
        int last_code;                     /* the code of these words; 0: it said nothing */
        uint32_t answer_ms;
        bool reading;  /* a thread is in frame_socket_receive */
        bool is_asked; /* the daemon was asked whether it is there; only NOTICEs have come since */
        uint64_t n_answers; /* frames but NOTICEs */
        bool is_silent;     /* the link ended because the daemon did not answer */
        bool dead;
};
