#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the targets of tests/fuzz under libFuzzer, one after another.

    long.py BUILD MINUTES JOBS [TARGET...]

Each target has its share of the minutes, in slices, on so many processes. How often each was run is
added up in build/counts.json for as long as its sources are the same; what it has learnt stays in
BUILD/corpus. Ends at the first finding, and says which file has the input.
"""

import os
import pathlib
import re
import subprocess
import sys
import time

import counts

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / 'tests/fuzz/corpus'
COUNTS = ROOT / 'build/counts.json'
SLICE_SECONDS = 120
# Of an allocation a report names the caller only: the input says the rest, and runs are faster.
SANITIZER = {'ASAN_OPTIONS': 'malloc_context_size=2:quarantine_size_mb=16'}
SAYS = re.compile(r'^\w+: (\d+) runs, (\d+) taken$', re.MULTILINE)


def unpack(name, folder):
    """The inputs of the tree, as files that libFuzzer reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, line in enumerate((CORPUS / f'{name}.hex').read_text().split()):
        (folder / f'tree-{number}').write_bytes(bytes.fromhex(line))


def run_slice(build, name, seconds, n_jobs):
    """Returns how many runs there were, how many were taken, and what a failed process said."""
    folder = build / 'corpus' / name
    findings = build / 'findings'
    findings.mkdir(exist_ok=True)
    command = ['nice', '-n', '19', build / 'tests/fuzz' / f'fuzz-{name}', f'-max_total_time={seconds}',
               '-max_len=600', '-timeout=60', '-reload=30', '-entropic=0', f'-artifact_prefix={findings}/{name}-', folder]
    processes = [subprocess.Popen(command, text=True, errors='replace', stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, env=os.environ | SANITIZER) for _ in range(n_jobs)]
    n_runs = n_taken = 0
    failure = ''
    for process in processes:
        said = process.communicate()[1]
        if found := SAYS.search(said):
            n_runs += int(found[1])
            n_taken += int(found[2])
        if process.returncode:
            failure = said[-6000:]
    return n_runs, n_taken, failure


def run_target(build, name, minutes, n_jobs):
    sources = counts.hash_sources(build, f'tests/fuzz/fuzz-{name}')
    unpack(name, build / 'corpus' / name)
    until = time.monotonic() + minutes * 60
    while (left := until - time.monotonic()) > 1:
        seconds = max(1, round(min(left, SLICE_SECONDS)))
        n_runs, n_taken, failure = run_slice(build, name, seconds, n_jobs)
        row = counts.add(COUNTS, f'fuzz {name}', sources, runs=n_runs, taken=n_taken)
        if failure:
            print(failure)
            print(f'fuzz {name}: a finding; its input is in {build}/findings')
            return False
    print(f'fuzz {name}: of sources {sources} so far {row["runs"]} runs, '
          f'{100 * row["taken"] // max(1, row["runs"])} % of them taken; no finding', flush=True)
    return True


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    minutes, n_jobs = float(sys.argv[2]), int(sys.argv[3])
    names = sys.argv[4:] or sorted(path.stem for path in CORPUS.glob('*.hex'))
    return 0 if all([run_target(build, name, minutes / len(names), n_jobs) for name in names]) else 1


if __name__ == '__main__':
    sys.exit(main())
