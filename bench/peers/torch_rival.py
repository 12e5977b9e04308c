#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's allocator of device memory, called from Python, as a rival: see rival.h. Whether segments are
expandable says PYTORCH_CUDA_ALLOC_CONF.
"""

import time

import rival

try:
    import torch
except ImportError as problem:
    rival.give_up('not installed' if problem.name == 'torch' else problem)


def first(argument):
    """first BYTES: ns of the allocation."""
    start = time.perf_counter_ns()
    tensor = torch.empty(int(argument), dtype=torch.uint8, device='cuda')
    end = time.perf_counter_ns()
    del tensor
    return end - start


class Play:
    """The orders about a trace, of which a process plays one."""

    def __init__(self):
        self.events = []
        self.next = 0
        self.live = {}
        self.stream = torch.cuda.current_stream().cuda_stream

    def play(self, path):
        """play FILE: none of its events has been played."""
        self.events = rival.read_trace(path)
        return 0

    def go(self, argument):
        """go N: plays so many events, if there are; bytes reserved."""
        n_events = int(argument)
        for number, n_bytes in self.events[self.next:self.next + n_events]:
            if n_bytes:
                self.live[number] = torch.cuda.caching_allocator_alloc(n_bytes, 0, self.stream)
            else:
                torch.cuda.caching_allocator_delete(self.live.pop(number))
        self.next += n_events
        return torch.cuda.memory_reserved()


def main():
    if not torch.cuda.is_available():
        rival.give_up('PyTorch finds no GPU')
    torch.cuda.init()
    torch.cuda.set_device(0)
    play = Play()
    rival.serve({'first': first, 'play': play.play, 'go': play.go})


if __name__ == '__main__':
    main()
