/* SPDX-License-Identifier: Apache-2.0 */
/* Places in captures: behind which nodes of a graph comes what is captured next. Those of a stream are
 * in it, those of an event in its recording; capture.h and graph.h have what is done with them. */
#pragma once

struct capture;
struct node;

/* A set of nodes; borrowed ones. */
struct nodes {
        struct node **items;
        unsigned n;
};

/* What a stream has of the capture that it is part of, or an event recorded in it. */
struct capture_place {
        struct capture *capture; /* NULL: none */
        struct nodes tip;        /* what comes after this place comes after these */
};
