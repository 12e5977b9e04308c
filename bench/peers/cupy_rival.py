#!/usr/bin/env python3
"""CuPy's pools of device and of pinned memory, called from Python as they are, as a rival: see rival.h.
The orders are those of orders.c. What a loop in Python takes is in the figures.
"""

import time

import rival

STARTED = time.perf_counter_ns()

try:
    import cupy
except ImportError as problem:
    rival.give_up('not installed' if problem.name == 'cupy' else problem)

COPY_BYTES = 2 << 20
HOST_TO_DEVICE = 1
N_DROPPED, DROPPED_BYTES = 64, 64 << 20
SECONDS_WAIT = 20


class Orders:
    """What has been allocated for patterns that go on."""

    def __init__(self):
        self.malloc = cupy.get_default_memory_pool().malloc
        self.pairs = self.replaced = self.replace = self.held = None

    def run(self, live, lists):
        malloc = self.malloc

        def run(steps):
            for slot, n_bytes in steps:
                live[slot] = None
                live[slot] = malloc(n_bytes)
        return [rival.median_batch(run, lists)]

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

    def hold(self, argument):
        """hold BYTES: until the end."""
        self.held = self.malloc(int(argument))
        return []

    def cache(self, argument):
        """cache BYTES: allocated and freed."""
        self.malloc(int(argument))
        return []

    def wait(self, argument):
        """wait BYTES: until it has them. The pool does not wait: it is asked again."""
        end = time.monotonic() + SECONDS_WAIT
        while True:
            try:
                return self.hold(argument)
            except cupy.cuda.memory.OutOfMemoryError:
                if time.monotonic() > end:
                    raise
            time.sleep(1e-4)

    def drop(self, _):
        """drop: ns to give back to the driver what 64 allocations of 64 MiB left."""
        pointers = [self.malloc(DROPPED_BYTES) for _ in range(N_DROPPED)]
        del pointers
        start = time.perf_counter_ns()
        cupy.get_default_memory_pool().free_all_blocks()
        return [time.perf_counter_ns() - start]


def first(argument):
    """first BYTES: ns of the allocation, ns since the start."""
    start = time.perf_counter_ns()
    array = cupy.empty(int(argument), dtype=cupy.uint8)
    end = time.perf_counter_ns()
    del array
    return [end - start, end - STARTED]


def pinned(argument):
    """pinned BYTES: ns to the end of the first copy out of it, of 2 MiB."""
    stream = cupy.cuda.get_current_stream()
    target = cupy.cuda.alloc(COPY_BYTES)
    start = time.perf_counter_ns()
    memory = cupy.cuda.alloc_pinned_memory(int(argument))
    cupy.cuda.runtime.memcpyAsync(target.ptr, memory.ptr, COPY_BYTES, HOST_TO_DEVICE, stream.ptr)
    stream.synchronize()
    return [time.perf_counter_ns() - start]


def main():
    try:
        cupy.cuda.Device(0).use()
        # Makes the context, which is not what is measured.
        cupy.cuda.runtime.free(0)
    except cupy.cuda.runtime.CUDARuntimeError as problem:
        rival.give_up(problem)
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.use()
    orders = Orders()
    rival.serve({'hot': orders.hot, 'random': orders.random, 'first': first, 'pinned': pinned,
                 'hold': orders.hold, 'cache': orders.cache, 'wait': orders.wait,
                 'drop': orders.drop})


if __name__ == '__main__':
    main()
