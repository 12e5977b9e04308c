#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays the model tests with one seed after another: never one twice for the same sources.

    long.py BUILD SEEDS STEPS JOBS [TEST...]

Without TEST it plays all: policy, heap. Each play of a seed takes so many steps in each case of each test. What was
played is added up in counts.json of the build folder. Ends at the first seed that fails, and says how to play it again.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / 'tests/fuzz'))
import counts

TESTS = {'policy': 'tests/model/test_policy_model', 'heap': 'tests/model/test_heap_model'}
FIRST_SEED = 1000000


def play(program, seed, n_steps):
    """Returns the number of cases that it played, and what it said if it failed."""
    environment = os.environ | {'GPUMEM_TEST_SEED': str(seed), 'GPUMEM_TEST_STEPS': str(n_steps)}
    done = subprocess.run(['nice', '-n', '19', program], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    n_cases = len(re.findall(r'^ok ', done.stdout, re.MULTILINE))
    return n_cases, '' if done.returncode == 0 else done.stdout


def play_all(build, name, n_seeds, n_steps, n_jobs):
    program = build / TESTS[name]
    sources = counts.hash_sources(build, TESTS[name])
    row = counts.add(build / 'counts.json', f'model {name}', sources, seeds=0, operations=0)
    seeds = range(FIRST_SEED + row['seeds'], FIRST_SEED + row['seeds'] + n_seeds)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(n_jobs) as pool:
        plays = pool.map(lambda seed: (seed, *play(program, seed, n_steps)), seeds)
        for seed, n_cases, failure in plays:
            if failure:
                pool.shutdown(cancel_futures=True)
                print(failure)
                print(f'model {name}: GPUMEM_TEST_SEED={seed} GPUMEM_TEST_STEPS={n_steps} '
                      f'{program} has failed')
                return False
            row = counts.add(build / 'counts.json', f'model {name}', sources, seeds=1,
                             operations=n_cases * n_steps)
    print(f'model {name}: {n_seeds} seeds in {time.monotonic() - began:.0f} s; of sources '
          f'{sources} so far {row["operations"]} operations over {row["seeds"]} seeds, '
          '0 failures', flush=True)
    return True


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    n_seeds, n_steps, n_jobs = map(int, sys.argv[2:5])
    names = sys.argv[5:] or TESTS
    return 0 if all([play_all(build, name, n_seeds, n_steps, n_jobs) for name in names]) else 1


if __name__ == '__main__':
    sys.exit(main())
