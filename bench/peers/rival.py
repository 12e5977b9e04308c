# SPDX-License-Identifier: Apache-2.0
"""The child's side of rival.h, for rivals in Python: reads orders, answers them."""

import gzip
import statistics
import sys
import time

N_BATCHES = 15

# The hot pattern of bench/pairs.h, whose steps come again after so many.
PAIRS_LIVE, PAIRS_SIZES = 64, 16
PAIRS_STEPS = PAIRS_LIVE * PAIRS_SIZES

# The random pattern of bench/replace.h, with its wide sizes.
REPLACE_LIVE, REPLACE_SIZES, REPLACE_STEPS = 1000, 1024, 1024
REPLACE_SEED = 88172645463325252


def give_up(reason):
    print('none', first_line(reason), flush=True)
    sys.exit(1)


def first_line(reason):
    return next(iter(str(reason).splitlines()), type(reason).__name__)


def answer(orders, line):
    word, _, argument = line.partition(' ')
    if word not in orders:
        return 'no unknown order'
    try:
        number = orders[word](argument)
    except Exception as error:  # pylint: disable=broad-except  # Any of a library's is the answer.
        return f'no {first_line(error)}'
    return f'ok {number:.9g}'


def serve(orders):
    """Orders are functions of the argument's text; each gives a number."""
    print('ready', flush=True)
    for line in sys.stdin:
        print(answer(orders, line.rstrip('\n')), flush=True)


def median_batch(run, lists):
    """Nanoseconds a step: run(steps) for each list of steps, of which the first warms up."""
    times = []
    for steps in lists:
        start = time.perf_counter_ns()
        run(steps)
        times.append((time.perf_counter_ns() - start) / len(steps))
    return statistics.median(times[1:])


def pairs_sizes():
    return [int(2 ** (19 * i / (PAIRS_SIZES - 1))) * 512 for i in range(PAIRS_SIZES)]


def pairs_start():
    """The sizes of the first live allocations."""
    sizes = pairs_sizes()
    return [sizes[slot % PAIRS_SIZES] for slot in range(PAIRS_LIVE)]


def pairs_steps():
    """(slot, size) of every step."""
    sizes = pairs_sizes()
    return [(at % PAIRS_LIVE,
             sizes[(at % PAIRS_LIVE + at // PAIRS_LIVE + 1) % PAIRS_SIZES])
            for at in range(PAIRS_STEPS)]


class Replace:
    """The random pattern's numbers."""

    def __init__(self):
        self.random = REPLACE_SEED
        self.sizes = [int(512 * 2 ** (17 * ((self.draw() >> 11) / (1 << 53))))
                      for _ in range(REPLACE_SIZES)]

    def draw(self):
        x = self.random
        x ^= x << 13 & 0xffffffffffffffff
        x ^= x >> 7
        x ^= x << 17 & 0xffffffffffffffff
        self.random = x
        return x

    def start(self):
        return [self.sizes[self.draw() >> 32 & REPLACE_SIZES - 1] for _ in range(REPLACE_LIVE)]

    def steps(self):
        drawn = [self.draw() for _ in range(REPLACE_STEPS)]
        return [((x >> 32) * REPLACE_LIVE >> 32, self.sizes[x & REPLACE_SIZES - 1]) for x in drawn]


def read_trace(path):
    """(id, bytes) of an allocation, (id, 0) of a free."""
    with gzip.open(path, 'rt') if path.endswith('.gz') else open(path) as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith('#')]
    return [(int(words[1]), int(words[2]) if words[0] == 'a' else 0) for words in lines]
