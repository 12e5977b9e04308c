#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds torch's optional extension for the torch that is installed, and asks torch itself for all that it gives, as
TAP. It needs a GPU, torch and a C++ compiler; what is missing is said.

    torch_itself.py

The extension stays in the user's cache. The driver is GPUMEM_CUDA_LIBRARY; GPUMEM_TEST_DAEMON, GPUMEM_TEST_CTL and
GPUMEM_TEST_LIBRARY say what serves.
"""

import importlib.util
import os
import subprocess
import sys
import threading
import traceback

MIB = 1 << 20
SECONDS = 240


def out_of_memory(torch):
    try:
        torch.empty(1 << 42, dtype=torch.uint8, device='cuda')
    except torch.OutOfMemoryError as error:
        assert str(error).startswith('CUDA out of memory. Tried to allocate 4.00 TiB'), error
        return
    raise AssertionError('4 TiB were not refused')


def cudnn_benchmark(torch):
    torch.backends.cudnn.allow_tf32 = False
    image, weight = torch.randn(8, 16, 64, 64, device='cuda'), torch.randn(32, 16, 3, 3, device='cuda')
    plain = torch.nn.functional.conv2d(image, weight)
    torch.backends.cudnn.benchmark = True
    assert torch.backends.cudnn.benchmark
    found = torch.nn.functional.conv2d(image, weight)
    torch.backends.cudnn.benchmark = False
    assert torch.allclose(plain, found, atol=1e-3)


def live_allocations(torch):
    check, device = torch._C._cuda_checkPoolLiveAllocations, torch.cuda.current_device()
    source, graph = torch.ones(1000, device='cuda'), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        a = source + 1
        b = a * 2
        del a
    pool = graph.pool()
    assert check(device, pool, {b.data_ptr()}) and not check(device, pool, {b.data_ptr(), source.data_ptr()})
    assert not check(device, pool, set())
    graph.replay()
    torch.cuda.synchronize()
    assert b.eq(4).all()


def memory_pools(torch):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.full((1000,), 3.0, device='cuda')
    outside = torch.full((1000,), 4.0, device='cuda')
    check, device = torch._C._cuda_checkPoolLiveAllocations, torch.cuda.current_device()
    assert check(device, pool.id, {inside.data_ptr()})
    assert (inside + outside).eq(7).all()


def statistics(torch):
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    first = torch.empty(3 * MIB, dtype=torch.uint8, device='cuda')
    second = torch.empty(1000, dtype=torch.uint8, device='cuda')
    del first
    after = torch.cuda.memory_stats()
    assert after['allocation.all.allocated'] - before['allocation.all.allocated'] == 2
    assert after['allocation.all.freed'] - before['allocation.all.freed'] == 1
    assert after['requested_bytes.all.current'] - before['requested_bytes.all.current'] == 1000
    assert after['requested_bytes.all.peak'] - before['requested_bytes.all.current'] == 3 * MIB + 1000
    assert 'Allocated memory' in torch.cuda.memory_summary()
    assert second.numel() == 1000


def snapshot(torch):
    tensor = torch.empty(5 * MIB, dtype=torch.uint8, device='cuda')
    at = tensor.data_ptr()
    for segments in (torch.cuda.memory_snapshot(), torch.cuda.memory._snapshot()['segments']):
        found = [block for segment in segments for block in segment['blocks'] if block['address'] == at]
        assert len(found) == 1 and found[0]['state'] == 'active_allocated', found
        assert found[0]['requested_size'] == 5 * MIB


def double(tensors, results):
    tensor = tensors.get(timeout=60)
    results.put(tensor.sum().item())
    tensor.mul_(2)
    import torch
    torch.cuda.synchronize()
    del tensor
    results.put('done')


def other_processes(torch):
    import gpumem.torch
    import torch.multiprocessing as processes

    spawn = processes.get_context('spawn')
    tensors, results = spawn.Queue(), spawn.Queue()
    with gpumem.torch.shareable():
        tensor = torch.full((1000,), 7.0, device='cuda')
    torch.cuda.synchronize()
    child = spawn.Process(target=double, args=(tensors, results))
    child.start()
    tensors.put(tensor)
    assert results.get(timeout=60) == 7000 and results.get(timeout=60) == 'done'
    child.join()
    assert tensor.eq(14).all() and child.exitcode == 0
    try:
        torch.ones(1000, device='cuda').untyped_storage()._share_cuda_()
        raise AssertionError('memory that is not shareable was shared')
    except RuntimeError as error:
        assert 'gpumem.torch.shareable()' in str(error), error


def other_devices(torch):
    if torch.cuda.device_count() < 2:
        return 'needs two GPUs'
    numbers = torch.arange(1 << 20, device='cuda:0')
    there = numbers.to('cuda:1')
    back = (there + 1).to('cuda:0')
    torch.cuda.synchronize()
    assert there.device.index == 1 and back.sub(numbers).eq(1).all()
    # A kernel of one device reads what the other has.
    if torch.cuda.can_device_access_peer(1, 0):
        assert torch.equal(torch.empty_like(there).copy_(numbers), there)
    with torch.cuda.device(1):
        assert torch.empty(10, device='cuda').device.index == 1
    return None


def threads(torch):
    """They allocate, free and wait for the device at one time: none waits for ever."""
    wrong = []

    def work(number):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for round_ in range(300):
                tensor = torch.full((1 + 997 * (round_ % 50),), number, device='cuda')
                copy = tensor.clone()
                del tensor
                if round_ % 10 == 0 and not copy.eq(number).all():
                    wrong.append((number, round_))
                if round_ % 100 == 0:
                    torch.cuda.empty_cache()
        torch.cuda.synchronize()

    workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers), 'a thread waits still'
    assert not wrong, wrong


def forked_child(_torch):
    """CUDA is used by the children of a process that has imported torch and not used CUDA."""
    asked = subprocess.run([sys.executable, '-m', 'gpumem', 'run', __file__, '--fork'], capture_output=True, text=True,
                           timeout=SECONDS, check=False)
    assert asked.returncode == 0, asked.stdout + asked.stderr


def fork():
    """In a process that is served: imports torch, lets two children use CUDA, and uses it then."""
    import torch
    assert not torch.cuda.is_initialized()
    os.environ['CUDA_VISIBLE_DEVICES'] = '0'
    for _ in range(2):
        child = os.fork()
        if not child:
            served = torch.cuda.device_count() == 1 and torch.ones(1000, device='cuda').sum().item() == 1000
            os._exit(0 if served else 1)
        assert os.waitpid(child, 0)[1] == 0
    import gpumem
    tensor = torch.ones(10, device='cuda')
    assert tensor.sum().item() == 10 and gpumem.describe(tensor.data_ptr())
    return 0


def nothing_failed(torch):
    import gpumem.torch
    torch.cuda.synchronize()
    assert gpumem.torch.failures() == 0


CASES = (out_of_memory, cudnn_benchmark, live_allocations, memory_pools, statistics, snapshot, other_processes,
         other_devices, threads, forked_child, nothing_failed)


def ask():
    """In the process that is served: a line of TAP for each case, the first being 2."""
    import torch
    n_failed = 0
    for number, case in enumerate(CASES, 2):
        without = problem = None
        try:
            without = case(torch)
        except Exception:  # pylint: disable=broad-except  # Each says what went wrong; the next ones are asked too.
            problem = traceback.format_exc()
            n_failed += 1
        skipped = f' # SKIP {without}' if without else ''
        print(f'{"not ok" if problem else "ok"} {number} - {case.__name__.replace("_", " ")}{skipped}', flush=True)
        for line in (problem or '').splitlines():
            print(f'#   {line}', flush=True)
    return 1 if n_failed else 0


def main():
    if importlib.util.find_spec('torch') is None:
        print('1..0 # SKIP there is no torch')
        return 0
    import world
    machine = world.World(devices=1, device_bytes='16GiB').start()
    try:
        built = machine.run('-m', 'gpumem', 'torch-extension', timeout=SECONDS)
        print(f'{"not ok" if built.returncode else "ok"} 1 - the extension is compiled')
        if built.returncode:
            for line in built.stderr.splitlines():
                print(f'#   {line}')
            print('1..1')
            return 1
        asked = machine.run('-m', 'gpumem', 'run', __file__, '--ask', timeout=SECONDS,
                            environment=machine.environment | {'GPUMEM_REQUIRED': '1'})
        print(asked.stdout, end='')
        print(f'1..{1 + len(CASES)}')
        sys.stderr.write(asked.stderr)
        return asked.returncode
    finally:
        machine.stop()


if __name__ == '__main__':
    sys.exit(ask() if '--ask' in sys.argv else fork() if '--fork' in sys.argv else main())
