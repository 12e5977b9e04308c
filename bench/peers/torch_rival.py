#!/usr/bin/env python3
"""PyTorch's allocator of device memory, called from Python, as a rival: see rival.h. Whether segments are
expandable says PYTORCH_CUDA_ALLOC_CONF.
"""

import time

import rival

STARTED = time.perf_counter_ns()

try:
    import torch
except ImportError as problem:
    rival.give_up('not installed' if problem.name == 'torch' else problem)


def first(argument):
    """first BYTES: ns of the allocation, ns since the start."""
    start = time.perf_counter_ns()
    tensor = torch.empty(int(argument), dtype=torch.uint8, device='cuda')
    end = time.perf_counter_ns()
    del tensor
    return [end - start, end - STARTED]


class Play:
    """A trace, as far as it has been played."""

    def __init__(self, path):
        self.events = rival.read_trace(path)
        self.next = 0
        self.live = {}
        self.live_bytes = self.live_peak = 0
        self.stream = torch.cuda.current_stream().cuda_stream
        torch.cuda.reset_peak_memory_stats()

    def go(self, n_events):
        for number, n_bytes in self.events[self.next:self.next + n_events]:
            if n_bytes:
                pointer = torch.cuda.caching_allocator_alloc(n_bytes, 0, self.stream)
                self.live[number] = pointer, n_bytes
                self.live_bytes += n_bytes
                self.live_peak = max(self.live_peak, self.live_bytes)
            else:
                pointer, n_freed = self.live.pop(number)
                torch.cuda.caching_allocator_delete(pointer)
                self.live_bytes -= n_freed
        self.next += n_events


class Plays:
    """The orders about traces, of which a process plays one."""

    def __init__(self):
        self.play = None

    def trace(self, path):
        """trace FILE: the peak of the bytes asked for, the peak reserved, hits in percent."""
        self.play = Play(path)
        n_allocs = sum(n_bytes > 0 for _, n_bytes in self.play.events)
        before = torch.cuda.memory_stats().get('num_device_alloc', 0)
        self.play.go(len(self.play.events))
        n_misses = torch.cuda.memory_stats().get('num_device_alloc', 0) - before
        return [self.play.live_peak, torch.cuda.max_memory_reserved(),
                100 * (1 - n_misses / n_allocs)]

    def begin(self, path):
        """play FILE: its number of events, of which none has been played."""
        self.play = Play(path)
        return [len(self.play.events)]

    def go(self, argument):
        """go N: plays so many events, if there are; bytes live, bytes reserved."""
        self.play.go(int(argument))
        return [self.play.live_bytes, torch.cuda.memory_reserved()]


def main():
    if not torch.cuda.is_available():
        rival.give_up('PyTorch finds no GPU')
    torch.cuda.init()
    torch.cuda.set_device(0)
    plays = Plays()
    rival.serve({'first': first, 'trace': plays.trace, 'play': plays.begin, 'go': plays.go})


if __name__ == '__main__':
    main()
