/* SPDX-License-Identifier: Apache-2.0 */
/* A place in a capture: the nodes of a graph behind which the next operation is captured. A stream has its place in
 * the stream, an event in its recording; capture.h and graph.h have the functions for them. */
#pragma once

struct capture;
struct node;

/* A set of nodes; borrowed ones. */
struct nodes {
        struct node **items;
        unsigned n;
};

/* The place of a stream that is part of a capture, or of an event that was recorded in it. */
struct capture_place {
        struct capture *capture; /* NULL: none */
        struct nodes tip;        /* what comes after this place comes after these */
};
