#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One framework in a process of its own, by itself or under `python -m gpumem run`: reads orders, answers them.

    child.py numba | cupy | torch | cuda_core | warp | rmm
"""

import contextlib
import itertools
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'peers'))
import rival


def timed(make):
    """The order pairs N BYTES: ns of an allocation and its end, which comes at once."""
    def pairs(text):
        n, n_bytes = map(int, text.split())
        begin = time.perf_counter_ns()
        for _ in itertools.repeat(None, n):
            make(n_bytes)
        return (time.perf_counter_ns() - begin) / n
    return pairs


class Play:
    """The orders play FILE and go N: so many of its next events, as torch.empty and del; bytes reserved."""

    def __init__(self, make, reserved):
        self.make, self.reserved = make, reserved
        self.events, self.next, self.live = [], 0, {}

    def play(self, path):
        self.events = rival.read_trace(path)
        return len(self.events)

    def go(self, text):
        n = int(text)
        for number, n_bytes in self.events[self.next:self.next + n]:
            if n_bytes:
                self.live[number] = self.make(n_bytes)
            else:
                del self.live[number]
        self.next += n
        return self.reserved()


def numba():
    import numpy
    from numba import cuda
    cuda.current_context()
    return {'pairs': timed(lambda n_bytes: cuda.device_array(n_bytes, numpy.uint8))}


def cupy():
    import cupy as module
    module.cuda.Device(0).use()
    return {'pairs': timed(module.cuda.alloc)}


def torch():
    import torch as module
    module.cuda.init()
    empty, uint8, device = module.empty, module.uint8, module.device('cuda', 0)

    def make(n_bytes):
        return empty(n_bytes, dtype=uint8, device=device)
    play = Play(make, lambda: module.cuda.memory_reserved(0))
    return {'pairs': timed(make), 'play': play.play, 'go': play.go}


def cuda_core():
    from cuda.core import Device
    device = Device(0)
    device.set_current()
    stream, resource = device.create_stream(), device.memory_resource
    return {'pairs': timed(lambda n_bytes: resource.allocate(n_bytes, stream=stream).close())}


def warp():
    import warp as module
    with contextlib.redirect_stdout(sys.stderr):  # it greets
        module.init()
    device, empty, uint8 = module.get_device('cuda:0'), module.empty, module.uint8
    empty(1, dtype=uint8, device=device)
    return {'pairs': timed(lambda n_bytes: empty(n_bytes, dtype=uint8, device=device))}


def rmm():
    import rmm.mr
    resource = rmm.mr.get_per_device_resource(0)

    def make(n_bytes):
        resource.deallocate(resource.allocate(n_bytes), n_bytes)
    make(1)
    return {'pairs': timed(make)}


FRAMEWORKS = {'numba': numba, 'cupy': cupy, 'torch': torch, 'cuda_core': cuda_core, 'warp': warp, 'rmm': rmm}


def main():
    try:
        orders = FRAMEWORKS[sys.argv[1]]()
    except Exception as problem:  # pylint: disable=broad-except  # Why it cannot be had, whatever it is.
        rival.give_up(problem)
    rival.serve(orders)


if __name__ == '__main__':
    main()
