#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NCCL on registered memory: all_reduce in a captured graph. It needs two GPUs, a running gpumemd, torch with NCCL.

    registered.py [--bytes N] [--replays N]

Two processes reduce plain, then registered memory in a captured graph, with NCCL_GRAPH_REGISTER=1. Prints how many
values are wrong, milliseconds a replay, and whether torch registered the pool. Exit status 1: a value is wrong.
"""

import argparse
import os

import torch.distributed as dist
import torch.multiprocessing

import gpumem.torch


def register(pool):
    backend = dist.group.WORLD._get_backend(torch.device('cuda'))
    try:
        backend.register_mem_pool(pool)
        return 'registered by register_mem_pool'
    except (AttributeError, RuntimeError) as error:
        return f'not registered by register_mem_pool: {str(error).splitlines()[0]}'


def reduce(rank, asked, is_registered, port):
    os.environ |= {'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(port), 'NCCL_GRAPH_REGISTER': '1'}
    torch.cuda.set_device(rank)
    dist.init_process_group('nccl', rank=rank, world_size=2, device_id=torch.device('cuda', rank))
    pool = gpumem.torch.pool(registered=is_registered)
    with torch.cuda.use_mem_pool(pool):
        data = torch.empty(asked.bytes // 4, device='cuda')
    dist.all_reduce(data.fill_(1))  # NCCL connects before the capture
    said = register(pool) if is_registered else 'plain memory'
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(data)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    n_wrong = total = 0
    for i in range(asked.replays):
        data.fill_(i + rank)
        start.record()
        graph.replay()
        end.record()
        n_wrong += int((data != 2 * i + 1).sum())
        total += start.elapsed_time(end)
    print(f'rank {rank}: {said}: {n_wrong} wrong values, {total / asked.replays:.3f} ms a replay', flush=True)
    assert n_wrong == 0 and gpumem.torch.failures() == 0
    graph.reset()  # NCCL waits for graphs that hold its communicator
    dist.destroy_process_group()


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bytes', type=int, default=1 << 28, help='of the tensor (default: 256 MiB)')
    parser.add_argument('--replays', type=int, default=100, help='of each graph (default: 100)')
    for number, kind in enumerate((False, True)):
        torch.multiprocessing.spawn(reduce, (parser.parse_args(), kind, 29500 + number), nprocs=2)
