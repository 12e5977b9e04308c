#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Python programs pay for gpumemd's memory, beside the frameworks' own allocators, as TAP.

    measure.py [--rounds N] [pairs] [traces]

pairs   an allocation and its end, in two processes in turns: the framework's own, and gpumemd's
traces  four processes that play the four traces at once, half a trace apart: the most that they hold over the most
        that they use
The driver is GPUMEM_CUDA_LIBRARY; GPUMEM_TEST_DAEMON, GPUMEM_TEST_CTL and GPUMEM_TEST_LIBRARY say what is measured.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
for folder in ('tests/python', 'bench/peers'):
    sys.path.insert(0, str(ROOT / folder))
import rival
import world

# framework: pairs of a round, bound on gpumemd's median over its own
PAIRS = {'numba': (400, 1.0), 'cupy': (4000, 1.0), 'torch': (4000, 1.0), 'cuda_core': (4000, 1.2), 'warp': (1000, 1.2),
         'rmm': (4000, None)}
# RMM calls Python for each of gpumemd's, and nothing for its own: ns of a pair that are allowed.
NS_MAX = {'rmm': 3000}
SIZES = (4096, 1 << 20)

# As bench/peers/node.c has them.
TRACES = ('diffusion', 'gpt_train', 'kv_decode', 'vision_serve')
N_SAMPLES = 2048
N_LAG = N_SAMPLES // 2
HELD_OVER_LIVE = 1.10


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
        run = ['-m', 'gpumem', 'run'] if served else []
        more = {'GPUMEM_REQUIRED': '1'} if served else {}
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


def rounds(children, n_rounds, n_pairs, n_bytes):
    """(own, ours): medians of ns a pair. The two take turns, and in who is first, too."""
    times = ([], [])
    order = f'pairs {n_pairs} {n_bytes}'
    for child in children:
        child.ask(order)
    for i in range(n_rounds):
        for which in (0, 1) if i % 2 else (1, 0):
            times[which].append(children[which].ask(order))
    return tuple(statistics.median(each) for each in times)


def measure_pairs(report, machine, n_rounds):
    fleet = {name: [Child(machine, name, served) for served in (False, True)] for name in PAIRS}
    for name, children in fleet.items():
        n_pairs, bound = PAIRS[name]
        try:
            for child in children:
                child.hear()
            for n_bytes in SIZES:
                own, ours = rounds(children, n_rounds, n_pairs, n_bytes)
                ratio = ours / own
                report.figure(f'{name}, an allocation of {n_bytes} bytes and its end: own {own:.0f} ns, gpumemd '
                              f'{ours:.0f} ns, ratio {ratio:.3f}; medians of {n_rounds} rounds of {n_pairs}')
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


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=61, help='of pairs (default: 61)')
    parser.add_argument('parts', nargs='*', metavar='pairs|traces')
    made = parser.parse_args()
    if not set(made.parts) <= {'pairs', 'traces'}:
        parser.error(f'{" ".join(made.parts)}: allowed are pairs and traces')
    return made


def main():
    asked = arguments()
    wanted = asked.parts or ['pairs', 'traces']
    report = Report()
    room = os.environ.get('GPUMEM_BENCH_DEVICE_BYTES', '48GiB')
    machine = world.World(devices=1, device_bytes=room).start()
    try:
        if 'pairs' in wanted:
            measure_pairs(report, machine, asked.rounds)
        if 'traces' in wanted:
            measure_traces(report, machine)
    finally:
        machine.stop()
    return report.end()


if __name__ == '__main__':
    sys.exit(main())
