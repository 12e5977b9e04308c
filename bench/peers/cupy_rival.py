#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy's pool of device memory, called from Python as it is, as a rival: see rival.h.
The orders are those of orders.c. What a loop in Python takes is in the figures.
"""

import time

import rival

try:
    import cupy
except ImportError as problem:
    rival.give_up('not installed' if problem.name == 'cupy' else problem)


class Orders:
    """The live allocations of patterns with several orders."""

    def __init__(self):
        self.malloc = cupy.get_default_memory_pool().malloc
        self.pairs = self.replaced = self.replace = None

    def run(self, live, lists):
        malloc = self.malloc

        def run(steps):
            for slot, n_bytes in steps:
                live[slot] = None
                live[slot] = malloc(n_bytes)
        return rival.median_batch(run, lists)

    def hot(self, _):
        """hot: ns a pair."""
        if self.pairs is None:
            self.pairs = [self.malloc(n_bytes) for n_bytes in rival.pairs_start()]
        return self.run(self.pairs, [rival.pairs_steps()] * (1 + rival.N_BATCHES))

    def random(self, _):
        """random: ns a pair."""
        if self.replaced is None:
            self.replace = rival.Replace()
            self.replaced = [self.malloc(n_bytes) for n_bytes in self.replace.start()]
        return self.run(self.replaced,
                        [self.replace.steps() for _ in range(1 + rival.N_BATCHES)])


def first(argument):
    """first BYTES: ns of the allocation."""
    start = time.perf_counter_ns()
    array = cupy.empty(int(argument), dtype=cupy.uint8)
    end = time.perf_counter_ns()
    del array
    return end - start


def back(_):
    """back: ns until what 64 allocations of 64 MiB have left is the driver's."""
    pool = cupy.get_default_memory_pool()
    pointers = [pool.malloc(64 << 20) for _ in range(64)]
    del pointers
    start = time.perf_counter_ns()
    pool.free_all_blocks()
    return time.perf_counter_ns() - start


def main():
    try:
        cupy.cuda.Device(0).use()
        # Makes the context, which is not part of the measurement.
        cupy.cuda.runtime.free(0)
    except cupy.cuda.runtime.CUDARuntimeError as problem:
        rival.give_up(problem)
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.use()
    orders = Orders()
    rival.serve({'hot': orders.hot, 'random': orders.random, 'first': first, 'back': back})


if __name__ == '__main__':
    main()
