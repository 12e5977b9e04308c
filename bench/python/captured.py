#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two frameworks in one captured graph, with memory of both made and dropped inside, as TAP. It needs a GPU.

    captured.py [--replays N]

Each pair is a process of its own under `python -m gpumem run`. It captures a graph, deletes all that the capture has
made, and launches the graph again and again, while another thread allocates, fills and frees. Each launch must give the
right values. A pair is left out where one of the two is not installed. The driver is GPUMEM_CUDA_LIBRARY;
GPUMEM_TEST_DAEMON, GPUMEM_TEST_CTL and GPUMEM_TEST_LIBRARY say what serves.
"""

import argparse
import gc
import importlib.util
import pathlib
import sys
import threading

PAIRS = ('torch-warp', 'torch-cupy', 'cupy-warp')
N = 1 << 18  # numbers in an array: 1 MiB


def torch_with(inside):
    """(fill, launch, worst error, other work) where `inside(a, stream)` gives twice the tensor `a` in the capture."""
    import torch

    source, result = torch.zeros(N, device='cuda'), torch.zeros(N, device='cuda')
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        inside(source + 1, stream)  # what is compiled is compiled now
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        a = source + 1
        b = inside(a, stream)
        c = b * 3
        del a, b
        result.copy_(c)
        del c
    gc.collect()
    other = torch.cuda.Stream()

    def work():
        with torch.cuda.stream(other):
            for n in (N, N // 2, 3 * N):
                torch.full((n,), 77.0, device='cuda')
        other.synchronize()

    def fill(value):
        source.fill_(float(value))

    def worst(wanted):
        torch.cuda.synchronize()
        return (result - wanted).abs().max().item()

    return fill, graph.replay, worst, work


def warp_double():
    """A function that launches a kernel: twice an array, in a stream of another framework."""
    import warp as wp

    @wp.kernel
    def double(a: wp.array(dtype=wp.float32), b: wp.array(dtype=wp.float32)):
        i = wp.tid()
        b[i] = a[i] * 2.0

    wp.init()
    device = wp.get_device('cuda:0')
    wp.load_module(device=device)

    def run(a, stream):
        with wp.ScopedStream(stream, sync_enter=False):
            b = wp.empty(N, dtype=wp.float32, device=device)
            wp.launch(double, dim=N, inputs=[a, b], device=device)
        return b

    return wp, device, run


def torch_warp():
    wp, _, run = warp_double()

    def inside(a, stream):
        return wp.to_torch(run(wp.from_torch(a), wp.stream_from_torch(stream)))

    return torch_with(inside)


def torch_cupy():
    import cupy
    import torch

    def inside(a, stream):
        with cupy.cuda.ExternalStream(stream.cuda_stream):
            return torch.as_tensor(cupy.asarray(a) * cupy.float32(2), device='cuda')

    return torch_with(inside)


def cupy_warp():
    import cupy

    wp, device, run = warp_double()
    source, result = cupy.zeros(N, cupy.float32), cupy.zeros(N, cupy.float32)
    stream, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    theirs = wp.Stream(device, cuda_stream=stream.ptr)
    cupy.cuda.Device().synchronize()

    def once():
        a = source + cupy.float32(1)
        b = run(wp.array(a, dtype=wp.float32, device=device, copy=False), theirs)
        cupy.multiply(cupy.asarray(b), cupy.float32(3), out=result)

    with stream:
        once()
        stream.synchronize()
        stream.begin_capture()
        once()
        graph = stream.end_capture()
    gc.collect()

    def work():
        with other:
            for n in (N, N // 2, 3 * N):
                cupy.full(n, 77.0, cupy.float32)
        other.synchronize()

    def fill(value):
        with stream:
            source.fill(value)

    def worst(wanted):
        with stream:
            return float(abs(result - cupy.float32(wanted)).max())

    return fill, lambda: graph.launch(stream), worst, work


def play(pair, n_replays):
    """None, or the first launch that gave wrong values."""
    fill, launch, worst, work = {'torch-warp': torch_warp, 'torch-cupy': torch_cupy, 'cupy-warp': cupy_warp}[pair]()
    is_over, n_works = threading.Event(), 0

    def work_on():
        nonlocal n_works
        while not is_over.is_set():
            work()
            n_works += 1

    thread = threading.Thread(target=work_on)
    thread.start()
    try:
        for i in range(n_replays):
            fill(i)
            launch()
            error = worst((i + 1) * 6.0)
            if error:
                return f'launch {i} is wrong by {error}'
    finally:
        is_over.set()
        thread.join()
    print(f'{n_works} rounds of another thread')
    return None if n_works else 'the other thread did nothing'


def missing(pair):
    return next((name for name in pair.split('-') if importlib.util.find_spec(name) is None), None)


def tell(pair, machine, n_replays):
    """A case, and what is wrong with it."""
    absent = missing(pair)
    if absent:
        return f' # SKIP there is no {absent}', None
    ran = machine.run('-m', 'gpumem', 'run', __file__, '--pair', pair, '--replays', n_replays, timeout=250,
                      environment=machine.environment | {'GPUMEM_REQUIRED': '1'})
    if ran.returncode == 0:
        print(f'# figure: {pair}, one captured graph: {n_replays} launches right, {ran.stdout.splitlines()[-1]}')
    return '', None if ran.returncode == 0 else ran.stdout + ran.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--replays', type=int, default=1000, help='launches of each graph (default: 1000)')
    parser.add_argument('--pair', choices=PAIRS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.pair:
        problem = play(asked.pair, asked.replays)
        print(problem or '', end='')
        return 1 if problem else 0
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tests' / 'python'))
    import world
    machine = world.World(devices=1, device_bytes='8GiB').start()
    n_failed = 0
    try:
        for number, pair in enumerate(PAIRS, 1):
            rest, problem = tell(pair, machine, asked.replays)
            n_failed += problem is not None
            print(f'{"ok" if problem is None else "not ok"} {number} - {pair} in one captured graph{rest}', flush=True)
            for line in (problem or '').splitlines():
                print(f'#   {line}')
    finally:
        machine.stop()
    print(f'1..{len(PAIRS)}')
    return 1 if n_failed else 0


if __name__ == '__main__':
    sys.exit(main())
