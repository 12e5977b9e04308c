#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long processes wait for a kernel of Triton, CuPy, Jitify, Numba and torch.compile that is, or is not, compiled
yet, as TAP.

    kernels.py [--compile-only] [--hits N] [FRAMEWORK...]

together  8 processes are released at once, after their imports; one kernel, not compiled: it is compiled once, and all
          have it within the time of one process alone, and 0.3 s
hit       a new process, the kernel is compiled: beside the framework's own cache
The processes of torch.compile have caches of their own in all but the store, and no time is judged: most of it is not
the kernel's.
--compile-only compiles for an H200 without a GPU; nothing is launched, and no time is judged. It needs NVRTC, NVVM and
nvJitLink, and a driver: libcuda-emu.so by the name libcuda.so.1.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from measure import Absent, Report

HERE = pathlib.Path(__file__).resolve().parent
FRAMEWORKS = ('triton', 'cupy', 'numba', 'inductor', 'jitify')  # Jitify takes minutes for its first kernel
COMPILE_ONLY = ('triton', 'cupy', 'numba')  # what a process without a GPU can do
N_TOGETHER = 8
SLACK_S = 0.3
HIT_OVER_OWN = 1.1


class Child:
    """A framework in a process, with its imports done."""

    def __init__(self, framework, place, store, options):
        environment = {name: value for name, value in os.environ.items() if not name.startswith('GPUMEM_KERNELS')}
        environment |= {
            'PYTHONPATH': os.pathsep.join(filter(None, (str(HERE.parents[1] / 'python'),
                                                        environment.get('PYTHONPATH')))),
            'GPUMEM_KERNELS': '1' if store else '0', 'GPUMEM_KERNELS_DIR': f'{place}/store',
            'TRITON_CACHE_DIR': f'{place}/triton', 'CUPY_CACHE_DIR': f'{place}/cupy',
            'NUMBA_CACHE_DIR': f'{place}/numba', 'CUDA_CACHE_PATH': f'{place}/driver'}
        if framework == 'inductor':
            own = tempfile.mkdtemp(dir=place)
            environment |= {'TORCHINDUCTOR_CACHE_DIR': f'{own}/inductor', 'TRITON_CACHE_DIR': f'{own}/triton',
                            'TORCHINDUCTOR_COMPILE_THREADS': '1'}
        self.process = subprocess.Popen(
            [sys.executable, HERE / 'kernels_child.py', framework, *options], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def hear(self):
        """None, or (seconds, how many kernels it compiled)."""
        line = self.process.stdout.readline().rstrip('\n')
        if line == 'ready':
            return None
        word, _, rest = line.partition(' ')
        if word != 'ok':
            raise Absent(rest or 'its process has ended')
        seconds, compiled = rest.split()
        return float(seconds), int(compiled)

    def go(self):
        self.process.stdin.write('go\n')
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def first_kernels(framework, place, store, options, n):
    """What n processes say that are released together."""
    children = [Child(framework, place, store, options) for _ in range(n)]
    try:
        for child in children:
            child.hear()
        for child in children:
            child.go()
        return [child.hear() for child in children]
    finally:
        for child in children:
            child.end()


def together_at(report, framework, place, options):
    """(how many were compiled, when the last was ready) of processes that are released together."""
    together = first_kernels(framework, place, True, options, N_TOGETHER)
    n, last = sum(each[1] for each in together), max(each[0] for each in together)
    report.case(f'{framework}: {N_TOGETHER} processes compile once', None if n == 1 else f'{n} compiled')
    return n, last


def measure_inductor(report, options):
    with tempfile.TemporaryDirectory(prefix='gpumem-kernels-') as place:
        try:
            n, last = together_at(report, 'inductor', place, options)
            [(seconds, n_later)] = first_kernels('inductor', place, True, options, 1)
        except Absent as problem:
            report.case('inductor: kernels', skipped=problem)
            return
    print(f'# figure: inductor: {N_TOGETHER} together: {n} compiled, the last was ready after {last:.3f} s; a later '
          f'process: {n_later} compiled, {seconds:.3f} s', flush=True)
    report.case('inductor: a later process compiles none', f'{n_later} compiled' if n_later else None)


def measure(report, framework, options, n_hits):
    places = [pathlib.Path(tempfile.mkdtemp(prefix='gpumem-kernels-')) for _ in range(3)]
    alone_at, shared_at, own_at = places
    try:
        [(alone, n)] = first_kernels(framework, alone_at, True, options, 1)
        report.case(f'{framework}: one process compiles', None if n == 1 else f'it compiled {n}')
        n, last = together_at(report, framework, shared_at, options)
        print(f'# figure: {framework}: one process alone {alone:.3f} s; {N_TOGETHER} together: {n} compiled, the last '
              f'was ready after {last:.3f} s', flush=True)
        if not options:
            report.case(f'{framework}: all are ready within one compile and {SLACK_S} s',
                        None if last <= alone + SLACK_S else f'{last:.3f} s, and {alone:.3f} s alone')
        first_kernels(framework, own_at, False, options, 1)
        hits = ([], [])
        for i in range(n_hits):
            for which in (0, 1) if i % 2 else (1, 0):
                [(seconds, n)] = first_kernels(framework, (own_at, alone_at)[which], which == 1, options, 1)
                if n:
                    raise Absent(f'{("its own cache", "the store")[which]} did not have the kernel')
                hits[which].append(seconds)
        own, ours = map(statistics.median, hits)
        print(f'# figure: {framework}: first kernel of a process, compiled before: own cache {own * 1e3:.2f} ms, store '
              f'{ours * 1e3:.2f} ms, ratio {ours / own:.3f}; medians of {n_hits}', flush=True)
        if options:
            return
        report.case(f'{framework}: a hit within {HIT_OVER_OWN} of its own cache',
                    None if ours <= own * HIT_OVER_OWN else f'ratio {ours / own:.3f}')
    except Absent as problem:
        report.case(f'{framework}: kernels', skipped=problem)
    finally:
        for place in places:
            shutil.rmtree(place, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--compile-only', action='store_true', help='for an H200, without a GPU')
    parser.add_argument('--hits', type=int, default=9, help='processes for each of the two caches (default: 9)')
    parser.add_argument('frameworks', nargs='*', metavar='FRAMEWORK')
    asked = parser.parse_args()
    allowed = COMPILE_ONLY if asked.compile_only else FRAMEWORKS
    if not set(asked.frameworks) <= set(allowed):
        parser.error(f'{" ".join(asked.frameworks)}: allowed are {", ".join(allowed)}')
    report = Report()
    options = ['--compile-only'] if asked.compile_only else []
    for framework in asked.frameworks or allowed:
        if framework == 'inductor':
            measure_inductor(report, options)
        else:
            measure(report, framework, options, asked.hits)
    return report.end()


if __name__ == '__main__':
    sys.exit(main())
