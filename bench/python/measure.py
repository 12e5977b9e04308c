#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Python programs pay for gpumemd's memory, beside the frameworks' own allocators, as TAP.

    measure.py [--rounds N] [pairs] [traces] [training] [start]

pairs     an allocation and its end, in two processes in turns: the framework's own, and gpumemd's. PyTorch is measured
          twice: without gpumem's extension, and with it, if `python -m gpumem torch-extension` has built it
traces    four processes that play the four traces at once, half a trace apart: the most that they hold over the most
          that they use
training  steps of PyTorch, eager and as a captured graph, in two processes in turns
start     what importing gpumem and connecting adds to the start of a Python process
The driver is GPUMEM_CUDA_LIBRARY; GPUMEM_TEST_DAEMON, GPUMEM_TEST_CTL and GPUMEM_TEST_LIBRARY say what is measured.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
for folder in ('tests/python', 'bench/peers'):
    sys.path.insert(0, str(ROOT / folder))
import rival
import world

# framework: pairs of a round, bound on gpumemd's median over its own
PAIRS = {'numba': (400, 1.0), 'cupy': (4000, 1.0), 'torch': (4000, 1.0), 'torch-extension': (4000, 1.0),
         'cuda_core': (4000, 1.2), 'warp': (1000, 1.2), 'rmm': (4000, None)}
# RMM calls Python for each of gpumemd's, and nothing for its own: ns of a pair that are allowed.
NS_MAX = {'rmm': 3000}
SIZES = (4096, 1 << 20)
N_FLEETS = 5  # processes of each: one may be a third slower than the next as long as it lives

# As bench/peers/node.c has them.
TRACES = ('diffusion', 'gpt_train', 'kv_decode', 'vision_serve')
N_SAMPLES = 2048
N_LAG = N_SAMPLES // 2
HELD_OVER_LIVE = 1.10

TRAINING = ('eager', 'graph')
N_STEPS, N_STEP_ROUNDS = 10, 9
STEP_OVER_OWN = 1.02

# As CUDA programs have them; what comes then is timed in the process.
STARTS = """
import ctypes, os, time
ctypes.CDLL(os.environ["GPUMEM_CUDA_LIBRARY"]).cuInit(0)
begin = time.perf_counter()
import gpumem
imported = time.perf_counter()
gpumem.connect()
print(imported - begin, time.perf_counter() - imported)
"""
N_STARTS = 31
START_MS_MAX = 15


class Report:
    """Cases, and figures that people read."""

    def __init__(self):
        self.n = self.n_failed = 0

    def case(self, name, missed=None, skipped=None):
        self.n += 1
        self.n_failed += missed is not None
        print(f'{"ok" if missed is None else "not ok"} {self.n} - {name}' +
              (f' # SKIP {skipped}' if skipped else ''), flush=True)
        if missed:
            print(f'# {missed}', flush=True)

    def figure(self, text):
        print(f'# figure: {text}', flush=True)

    def end(self):
        print(f'1..{self.n}')
        return 1 if self.n_failed else 0


class Absent(Exception):
    """The framework cannot be had here."""


class Child:
    """A framework in a process: its own, or gpumemd's."""

    def __init__(self, machine, framework, served):
        framework, _, extension = framework.partition('-')
        run = ['-m', 'gpumem', 'run'] if served else []
        more = {'GPUMEM_REQUIRED': '1'} if served else {}
        if not extension:  # one that is built lies in the user's cache
            more['XDG_CACHE_HOME'] = str(machine.folder / 'cache')
        self.process = subprocess.Popen(
            [sys.executable, *run, HERE / 'child.py', framework], env=environment(machine) | more,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def hear(self):
        line = self.process.stdout.readline().rstrip('\n')
        if line == 'ready':
            return 0.0
        word, _, rest = line.partition(' ')
        if word == 'ok':
            return float(rest)
        raise Absent(rest or 'it has ended')

    def tell(self, order):
        self.process.stdin.write(order + '\n')
        self.process.stdin.flush()

    def ask(self, order):
        self.tell(order)
        return self.hear()

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def environment(machine):
    """Frameworks find the emulated driver by the name of the real one."""
    name = pathlib.Path(os.environ['GPUMEM_CUDA_LIBRARY'])
    return machine.with_driver() if name.name == 'libcuda-emu.so' else machine.environment


def rounds(fleets, n_rounds, n_pairs, n_bytes):
    """(own, ours): medians of ns a pair. Of each fleet the two take turns, and in who is first, too."""
    times = ([], [])
    order = f'pairs {n_pairs} {n_bytes}'
    for children in fleets:
        for child in children:
            child.ask(order)
    for i in range(n_rounds):
        for which in (0, 1) if i % 2 else (1, 0):
            times[which].append(fleets[i % len(fleets)][which].ask(order))
    return tuple(statistics.median(each) for each in times)


def missing_extension(machine):
    """Why PyTorch is not measured with it; None."""
    ran = machine.run('-m', 'gpumem', 'torch-extension', '--where')
    if ran.returncode:
        return ran.stderr.strip()
    return None if pathlib.Path(ran.stdout.strip()).exists() else 'it is not built: python -m gpumem torch-extension'


def measure_pairs(report, machine, n_rounds):
    absent = missing_extension(machine)
    if absent:
        report.case('torch-extension: pairs', skipped=absent)
    names = [name for name in PAIRS if not absent or name != 'torch-extension']
    for name in names:
        n_pairs, bound = PAIRS[name]
        fleets = [[Child(machine, name, served) for served in (False, True)] for _ in range(N_FLEETS)]
        children = [child for fleet in fleets for child in fleet]
        try:
            for child in children:
                child.hear()
            for n_bytes in SIZES:
                own, ours = rounds(fleets, n_rounds, n_pairs, n_bytes)
                ratio = ours / own
                report.figure(f'{name}, an allocation of {n_bytes} bytes and its end: own {own:.0f} ns, gpumemd '
                              f'{ours:.0f} ns, ratio {ratio:.3f}; medians of {n_rounds} rounds of {n_pairs} in '
                              f'{N_FLEETS} processes of each')
                if bound is None:
                    report.case(f'{name}: {n_bytes} bytes within {NS_MAX[name]} ns',
                                f'{ours:.0f} ns' if ours > NS_MAX[name] else None)
                else:
                    report.case(f'{name}: {n_bytes} bytes within {bound}',
                                f'ratio {ratio:.3f}' if ratio > bound else None)
        except Absent as problem:
            report.case(f'{name}: pairs', skipped=problem)
        for child in children:
            child.end()


class Player:
    """A trace and the process that plays it."""

    def __init__(self, child, path, lag):
        self.child, self.lag = child, lag
        events = rival.read_trace(str(path))
        self.n_each = -(-len(events) // N_SAMPLES)
        self.live = self.live_by_sample(events)
        self.held = 0.0

    def live_by_sample(self, events):
        sizes, live, most = {}, 0, []
        for at, (number, n_bytes) in enumerate(events):
            if at % self.n_each == 0:
                most.append(live)
            live += n_bytes or -sizes[number]
            sizes[number] = n_bytes
            most[-1] = max(most[-1], live)
        return most

    def is_playing(self, tick):
        return 0 <= tick - self.lag < len(self.live)


def play(players):
    """(most held, most used) of all at once. A trace that has ended keeps nothing: its process has ended."""
    most_held = most_live = 0.0
    for tick in range(N_LAG * (len(players) - 1) + N_SAMPLES):
        playing = [player for player in players if player.is_playing(tick)]
        for player in playing:
            player.child.tell(f'go {player.n_each}')
        for player in playing:
            player.held = player.child.hear()
        most_held = max(most_held, sum(player.held for player in players))
        most_live = max(most_live, sum(player.live[tick - player.lag] for player in playing))
        for player in playing:
            if not player.is_playing(tick + 1):
                player.child.end()
                player.held = 0.0
    return most_held, most_live


def daemon_peak(machine):
    """What the daemon has held of the device at most: cached memory too."""
    return next(pool['reserved_peak_bytes'] for pool in machine.ctl('stats')['pools']
                if pool['kind'] == 'device')


def measure_traces(report, machine):
    ratios = {}
    for served, whose in ((False, 'own'), (True, 'gpumemd')):
        children = [Child(machine, 'torch', served) for _ in TRACES]
        try:
            players = [Player(child, ROOT / f'bench/traces/{name}.trace.gz', N_LAG * i)
                       for i, (name, child) in enumerate(zip(TRACES, children, strict=True))]
            for player, name in zip(players, TRACES, strict=True):
                player.child.hear()
                player.child.ask(f'play {ROOT}/bench/traces/{name}.trace.gz')
            held, live = play(players)
        except Absent as problem:
            report.case('torch: traces', skipped=problem)
            for child in children:
                child.end()
            return
        if served:
            report.figure(f'torch, four traces at once, gpumemd: the four processes held {held / live:.3f}')
            held = daemon_peak(machine)
        ratios[whose] = held / live
        report.figure(f'torch, four traces at once, {whose}: at most {held / 2**30:.2f} GiB held, {live / 2**30:.2f} '
                      f'GiB used, ratio {ratios[whose]:.3f}')
    # What holds less than is used has not served.
    is_met = 1 <= ratios['gpumemd'] <= HELD_OVER_LIVE
    report.case(f'torch: held over live within {HELD_OVER_LIVE}',
                None if is_met else f'ratio {ratios["gpumemd"]:.3f}')


def measure_training(report, machine):
    for name in TRAINING:
        children = [Child(machine, name, served) for served in (False, True)]
        try:
            for child in children:
                child.hear()
                child.ask(f'steps {N_STEPS}')
            times = ([], [])
            for i in range(N_STEP_ROUNDS):
                for which in (0, 1) if i % 2 else (1, 0):
                    times[which].append(children[which].ask(f'steps {N_STEPS}'))
            own, ours = map(statistics.median, times)
            losses = [child.ask('loss') for child in children]
            report.figure(f'torch, a training step, {name}: own {own:.3f} ms, gpumemd {ours:.3f} ms, ratio '
                          f'{ours / own:.4f}; medians of {N_STEP_ROUNDS} rounds of {N_STEPS}; losses {losses[0]:.6g} '
                          f'and {losses[1]:.6g}')
            report.case(f'training, {name}: within {STEP_OVER_OWN}',
                        f'ratio {ours / own:.4f}' if ours > own * STEP_OVER_OWN else None)
            report.case(f'training, {name}: the losses are equal',
                        None if losses[0] == losses[1] else f'{losses[0]} and {losses[1]}')
        except Absent as problem:
            report.case(f'training, {name}', skipped=problem)
        for child in children:
            child.end()


def measure_start(report, machine):
    # As an installed package: its modules are compiled.
    compiled = {name: value for name, value in machine.environment.items() if name != 'PYTHONDONTWRITEBYTECODE'}
    compiled['PYTHONPYCACHEPREFIX'] = str(machine.folder / 'compiled')
    times = []
    for _ in range(1 + N_STARTS):
        ran = machine.run('-c', STARTS, environment=compiled)
        if ran.returncode:
            raise RuntimeError(ran.stderr)
        times.append([float(number) * 1e3 for number in ran.stdout.split()])
    imported, connected = (statistics.median(each[part] for each in times[1:]) for part in (0, 1))
    both = statistics.median(sum(each) for each in times[1:])
    report.figure(f'in a process that has initialised CUDA, import: {imported:.1f} ms, connect: {connected:.1f} ms, both: '
                  f'{both:.1f} ms; medians of {N_STARTS} processes')
    report.case(f'import and connect: within {START_MS_MAX} ms', f'{both:.1f} ms' if both > START_MS_MAX else None)


PARTS = {'traces': measure_traces, 'training': measure_training, 'start': measure_start}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=61, help='of pairs (default: 61)')
    parser.add_argument('parts', nargs='*', metavar='PART', help='pairs, traces, training, start (default: all)')
    made = parser.parse_args()
    if not set(made.parts) <= {'pairs', *PARTS}:
        parser.error(f'{" ".join(made.parts)}: allowed are pairs, {", ".join(PARTS)}')
    return made


def main():
    asked = arguments()
    wanted = asked.parts or ['pairs', *PARTS]
    report = Report()
    room = os.environ.get('GPUMEM_BENCH_DEVICE_BYTES', '48GiB')
    machine = world.World(devices=1, device_bytes=room).start()
    try:
        if 'pairs' in wanted:
            measure_pairs(report, machine, asked.rounds)
        for part in PARTS:
            if part in wanted:
                PARTS[part](report, machine)
    finally:
        machine.stop()
    return report.end()


if __name__ == '__main__':
    sys.exit(main())
