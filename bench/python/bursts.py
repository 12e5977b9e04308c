#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Four PyTorch programs on one GPU, each of which needs most of it now and then, as TAP. It needs a large GPU.

    bursts.py [--gib N] [own] [gpumemd] [reserved]

own       each allocates and fills a burst of N GiB (default: 60) in its turn, and drops it: with PyTorch's allocator
gpumemd   the same programs under `python -m gpumem run`: none dies, and no byte is wrong
reserved  the same, all at once: two bursts fit, so each is reserved (gpumem.reserve), and the others wait
The driver is GPUMEM_CUDA_LIBRARY; GPUMEM_TEST_DAEMON, GPUMEM_TEST_CTL and GPUMEM_TEST_LIBRARY say what serves.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

N_PROGRAMS, N_BURSTS = 4, 6
PERIOD_S = 2.0
PIECE = 2 << 30
BURST_S_MAX = 0.3
PARTS = ('own', 'gpumemd', 'reserved')


def program(number, n_gib, is_reserved):
    """One of the four. It reads a line with the time of its first burst, and prints what it has seen."""
    import torch

    n_pieces, seen = (n_gib << 30) // PIECE, {'seconds': [], 'waited': [], 'wrong': 0}
    torch.zeros(1, device='cuda')
    torch.cuda.synchronize()
    print('ready', flush=True)
    first = float(sys.stdin.readline())
    for burst in range(N_BURSTS):
        time.sleep(max(0.0, first + burst * PERIOD_S - time.time()))
        value = 1 + (number * N_BURSTS + burst) % 255
        begin = time.perf_counter()
        if is_reserved:
            import gpumem
            gpumem.reserve((n_pieces + 1) * PIECE, 0, wait=60.0)
            seen['waited'].append(time.perf_counter() - begin)
            begin = time.perf_counter()
        pieces = [torch.empty(PIECE, dtype=torch.uint8, device='cuda').fill_(value) for _ in range(n_pieces)]
        torch.cuda.synchronize()
        seen['seconds'].append(time.perf_counter() - begin)
        seen['wrong'] += sum(piece.min().item() != value or piece.max().item() != value for piece in pieces)
        del pieces
        if is_reserved:
            gpumem.reserve(0, 0)  # the burst is over
    print(json.dumps(seen), flush=True)


class Program:
    """One of them, in a process."""

    def __init__(self, environment, number, n_gib, part):
        run = [] if part == 'own' else ['-m', 'gpumem', 'run']
        reserved = ['--is-reserved'] if part == 'reserved' else []
        self.process = subprocess.Popen(
            [sys.executable, *run, __file__, '--program', str(number), '--gib', str(n_gib), *reserved], text=True,
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def is_ready(self):
        return self.process.stdout.readline() == 'ready\n'

    def begin(self, at):
        self.process.stdin.write(f'{at}\n')
        self.process.stdin.flush()

    def end(self):
        """(what it has seen, None), or (None, the last line of what it said)."""
        said, complaint = self.process.communicate(timeout=200)
        if self.process.returncode == 0:
            return json.loads(said), None
        return None, next(reversed(complaint.strip().splitlines()), f'exit status {self.process.returncode}')


def play(environment, n_gib, part):
    """(what those that ended have seen, why the others died)."""
    programs = [Program(environment, number, n_gib, part) for number in range(N_PROGRAMS)]
    if not all([each.is_ready() for each in programs]):
        return [], [each.end()[1] for each in programs]
    begin = time.time() + 0.5
    for number, each in enumerate(programs):
        each.begin(begin + (0 if part == 'reserved' else number * PERIOD_S / N_PROGRAMS))
    ends = [each.end() for each in programs]
    return [seen for seen, _ in ends if seen], [problem for seen, problem in ends if not seen]


class Report:
    """Cases, and figures that people read."""

    def __init__(self):
        self.n = self.n_failed = 0

    def case(self, name, problem):
        self.n += 1
        self.n_failed += problem is not None
        print(f'{"ok" if problem is None else "not ok"} {self.n} - {name}', flush=True)
        for line in (problem or '').splitlines():
            print(f'# {line}', flush=True)


def judge(report, part, n_gib, seen, dead):
    seconds = [each for one in seen for each in one['seconds']]
    text = f'{len(dead)} of {N_PROGRAMS} die'
    if seconds:
        text += (f'; {len(seconds)} bursts of {n_gib} GiB take {min(seconds):.3f} to {max(seconds):.3f} s, median '
                 f'{statistics.median(seconds):.3f}; {sum(one["wrong"] for one in seen)} pieces are wrong')
    waited = [each for one in seen for each in one['waited']]
    if waited:
        text += f'; reservations wait up to {max(waited):.3f} s'
    print(f'# figure: {N_PROGRAMS} programs with bursts, {part}: {text}', flush=True)
    for problem in dead:
        print(f'# figure: one that died: {problem}', flush=True)
    if part == 'own':
        return
    report.case(f'{part}: none dies', '\n'.join(dead) or None)
    report.case(f'{part}: no byte is wrong', None if seen and not any(one['wrong'] for one in seen) else text)
    if part == 'gpumemd':
        report.case(f'{part}: a burst within {BURST_S_MAX} s',
                    None if seconds and max(seconds) <= BURST_S_MAX else text)
    else:
        report.case(f'{part}: some waited', None if waited and max(waited) > 0.01 else text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gib', type=int, default=60, help='of a burst (default: 60)')
    parser.add_argument('--program', type=int, help=argparse.SUPPRESS)
    parser.add_argument('--is-reserved', action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('parts', nargs='*', metavar='own|gpumemd|reserved')
    asked = parser.parse_args()
    if not set(asked.parts) <= set(PARTS):
        parser.error(f'{" ".join(asked.parts)}: allowed are {", ".join(PARTS)}')
    return asked


def missing(n_gib):
    """Why nothing can be tried here; None."""
    try:
        import torch
    except ImportError:
        return 'there is no torch'
    if not torch.cuda.is_available():
        return 'torch sees no GPU'
    _, total = torch.cuda.mem_get_info()
    return None if total >= 2.2 * (n_gib << 30) else f'two bursts of {n_gib} GiB do not fit'


def main():
    asked = arguments()
    if asked.program is not None:
        program(asked.program, asked.gib, asked.is_reserved)
        return 0
    # Of a process of its own: no context of this one takes room.
    absent = subprocess.run([sys.executable, '-c', f'import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})'
                             f'; import bursts; print(bursts.missing({asked.gib}) or "")'], capture_output=True, text=True,
                            check=False)
    if absent.returncode or absent.stdout.strip():
        print(f'1..0 # SKIP {absent.stdout.strip() or absent.stderr.strip().splitlines()[-1]}')
        return 0
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tests' / 'python'))
    import world
    report, machine = Report(), world.World(devices=1, device_bytes=f'{int(asked.gib * 2.15)}GiB')
    try:
        for part in PARTS:
            if part not in (asked.parts or PARTS):
                continue
            if part != 'own' and machine.daemon is None:
                machine.start()
            environment = machine.environment | ({} if part == 'own' else {'GPUMEM_REQUIRED': '1'})
            judge(report, part, asked.gib, *play(environment, asked.gib, part))
    finally:
        machine.stop()
    print(f'1..{report.n}')
    return 1 if report.n_failed else 0


if __name__ == '__main__':
    sys.exit(main())
