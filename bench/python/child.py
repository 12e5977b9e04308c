#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One framework in a process of its own, by itself or under `python -m gpumem run`: reads orders, answers them.

    child.py numba | cupy | torch | cuda_core | warp | rmm | eager | graph
"""

import contextlib
import itertools
import os
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
    from cuda.bindings import runtime
    runtime.cudaFree(0)  # the device's context is current, as in a program that computes
    resource = rmm.mr.get_per_device_resource(0)

    def make(n_bytes):
        resource.deallocate(resource.allocate(n_bytes), n_bytes)
    make(1)
    return {'pairs': timed(make)}


def training():
    """(torch, a step that gives its loss): a transformer of 76 million parameters learns to give its input back.

    All kernels are deterministic: the same steps give the same losses."""
    os.environ['CUBLAS_WORKSPACE_CONFIG'] = ':4096:8'
    import torch as module
    module.use_deterministic_algorithms(True)
    module.utils.deterministic.fill_uninitialized_memory = False
    module.manual_seed(1)
    layer = module.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True)
    model = module.nn.TransformerEncoder(layer, 6).cuda()
    made = module.optim.Adam(model.parameters(), lr=1e-4, capturable=True)
    x = module.randn(32, 512, 1024).cuda()

    def step():
        made.zero_grad(set_to_none=True)
        with module.autocast('cuda', module.bfloat16):
            loss = module.nn.functional.mse_loss(model(x), x)
        loss.backward()
        made.step()
        return loss.detach()
    return module, step


def steps(module, step):
    """The orders steps N: ms of each of N steps; and loss: that of the last one."""
    last = [None]

    def run(text):
        n = int(text)
        module.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(n):
            last[0] = step()
        module.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e3 / n
    return {'steps': run, 'loss': lambda _: last[0].item()}


def eager():
    return steps(*training())


def graph():
    module, step = training()
    stream, captured = module.cuda.Stream(), module.cuda.CUDAGraph()
    stream.wait_stream(module.cuda.current_stream())
    with module.cuda.stream(stream):
        for _ in range(3):
            step()
    module.cuda.current_stream().wait_stream(stream)
    with module.cuda.graph(captured):
        loss = step()

    def replay():
        captured.replay()
        return loss
    return steps(module, replay)


FRAMEWORKS = {'numba': numba, 'cupy': cupy, 'torch': torch, 'cuda_core': cuda_core, 'warp': warp, 'rmm': rmm,
              'eager': eager, 'graph': graph}


def main():
    try:
        orders = FRAMEWORKS[sys.argv[1]]()
    except Exception as problem:  # pylint: disable=broad-except  # Why it cannot be had, whatever it is.
        rival.give_up(problem)
    rival.serve(orders)


if __name__ == '__main__':
    main()
