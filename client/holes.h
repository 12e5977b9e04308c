/* Spans of addresses, cut into pieces that are taken or holes, and an index of the holes for best
 * fit. A heap uses it for the blocks of a stream, in units of 512 bytes; the arena uses it for its
 * reserved addresses, in granules of 2 MiB. Pure: addresses are numbers and are never followed.
 *
 * Ownership: the caller owns every piece, usually embedded in something larger, and leaves its
 * fields alone while it belongs to a span. Nothing is allocated here, so nothing here can fail: the
 * caller brings the piece that a cut may need and gets back those that a merge has used up.
 * Threads: none of its own; the owner of the `struct holes` locks.
 *
 * Cost: holes of a size class (eight classes a doubling) form a list, smallest first, then lowest
 * address first. Finding walks the holes of the request's own class that are too small and at most
 * one list head after that. Making a hole walks the smaller ones of its class, so that it is linear
 * in the holes of one class: n holes of the same size cost up to n steps. All else is constant. */
#pragma once

#include <stdint.h>
#include <sys/queue.h>

#include "base/bitmap.h"
#include "base/size.h"

enum piece_state { PIECE_TAKEN = 1, PIECE_HOLE };

struct piece {
        uint64_t start;
        uint64_t n_bytes;
        enum piece_state state;
        struct piece *before;       /* ends where this one starts; NULL at the start of the span */
        struct piece *after;        /* starts where this one ends; NULL at the end of the span */
        LIST_ENTRY(piece) in_class; /* while it is a hole */
};

LIST_HEAD(piece_list, piece);

struct holes {
        unsigned unit_shift;
        uint64_t n_holes;
        uint64_t n_bytes;      /* of all holes */
        struct bitmap classes; /* those whose list is not empty */
        struct piece_list by_class[SIZE_N_CLASSES];
};

/* `unit` is a power of two; every start and size is a multiple of it. Not to be moved afterwards. */
void holes_init(struct holes *holes, uint64_t unit);

/* Makes one hole, and a span of its own, of the addresses from start on. Spans never merge, not even
 * where they touch. They must not overlap, or reach the end of the address space. */
void holes_add(struct holes *holes, struct piece *piece, uint64_t start, uint64_t n_bytes);

/* Forgets a hole that is the whole of its span. */
void holes_remove(struct holes *holes, struct piece *hole);

/* The smallest hole of at least n_bytes, the lowest among equals; NULL if there is none. */
struct piece *holes_find(const struct holes *holes, uint64_t n_bytes);

/* The bytes of the largest hole; 0 if there is none. Walks the holes of one class. */
uint64_t holes_largest(const struct holes *holes);

/* Takes the first n_bytes of a hole: `hole` becomes that taken piece and keeps its start. What is
 * left over becomes the hole `rest`; when nothing is, `rest` is not looked at and may be NULL. */
void holes_take(struct holes *holes, struct piece *hole, uint64_t n_bytes, struct piece *rest);

/* The pieces that a merge has used up, the caller's again. */
struct holes_used_up {
        unsigned n;
        struct piece *pieces[2];
};

/* Makes a hole of a taken piece, merged with the holes that it touches. The first of them stands for
 * all, so the first piece of a span stays the first for good. */
struct holes_used_up holes_give(struct holes *holes, struct piece *piece);

/* What spans hold, added up by their owner for holes_check; begins as all zero. */
struct holes_tally {
        uint64_t n_holes;
        uint64_t n_hole_bytes;
        uint64_t n_pieces;
        uint64_t n_span_bytes;
        uint64_t sum_of_starts; /* of holes, modulo 2^64: tells one set of holes from another */
};

/* Asserts that the span's pieces tile it, that no two holes touch and that each hole is linked into
 * the index; adds them to the tally. */
void holes_tally_span(const struct holes *holes, const struct piece *first,
                      struct holes_tally *tally);

/* Asserts that the index is in order and holds, once each, the holes of the tally and no others. */
void holes_check(const struct holes *holes, const struct holes_tally *tally);
