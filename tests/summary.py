#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `meson test` in build folders and counts test cases.

    summary.py [--unbuilt DIR]... DIR[:SUITE]...

Meson counts programs; this counts the cases that they report as TAP. It believes a program only
as far as its report goes: one that crashes, times out, plans other than it ran, or fails without
saying in what, has one failed case more. A folder named by --unbuilt is a failed case by itself.
Of DIR:SUITE only that suite is run. The last line is "N passed, N failed", with ", N skipped" if any were. Succeeds if nothing failed.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

TAIL_LINES = 40

TAP_CASE = re.compile(r'(?P<bad>not )?ok(?:\s+(?P<number>\d+))?(?:\s+-)?(?P<text>\s.*)?$')
TAP_SKIP = re.compile(r'#\s*skip\S*\s*', re.IGNORECASE)
TAP_PLAN = re.compile(r'1\.\.(?P<count>\d+)\s*(?P<skip>#\s*skip.*)?$', re.IGNORECASE)
MESON_PROGRESS = re.compile(r'\s*\d+/\d+\s')


@dataclasses.dataclass
class Case:
    name: str
    outcome: str


@dataclasses.dataclass
class Program:
    """What one test executable did in one build."""
    suite: str
    name: str
    cases: list
    seconds: float = 0.0
    output: str = ''

    @property
    def label(self):
        return f'{self.suite} / {self.name}' if self.suite else self.name

    def count(self, outcome):
        return sum(case.outcome == outcome for case in self.cases)


def parse_case(match):
    text = (match['text'] or '').strip()
    name = text or f"case {match['number'] or 'without a number'}"
    if match['bad']:
        return Case(name, 'failed')
    if TAP_SKIP.search(text):
        return Case(TAP_SKIP.sub('skipped: ', text), 'skipped')
    return Case(name, 'passed')


def parse_tap(stdout):
    """Returns the cases, the matches of the plan lines, and the text of a "Bail out!" or None."""
    cases, plans, bail = [], [], None
    for line in stdout.splitlines():
        if match := TAP_CASE.match(line):
            cases.append(parse_case(match))
        elif match := TAP_PLAN.match(line):
            plans.append(match)
        elif line.startswith('Bail out!'):
            bail = line
    return cases, plans, bail


def describe_exit(returncode):
    if returncode >= 0:
        return f'exit status {returncode}'
    try:
        return f'killed by {signal.Signals(-returncode).name}'
    except ValueError:
        return f'killed by signal {-returncode}'


def find_trouble(entry, cases, plans, bail):
    """What is wrong with a program beyond the cases that it calls failed, or None."""
    result, returncode = entry['result'], entry['returncode'] or 0
    if result == 'TIMEOUT':
        return f"timed out after {entry['duration']:.0f} s"
    if returncode < 0:
        return describe_exit(returncode)
    if bail is not None:
        return bail
    if not plans:
        return f'printed no plan ({describe_exit(returncode)})'
    if len(plans) > 1:
        return 'printed several plans'
    if int(plans[0]['count']) != len(cases):
        return f"planned {plans[0]['count']} cases, ran {len(cases)}"
    if not cases and not plans[0]['skip']:
        return 'ran no cases'
    if any(case.outcome == 'failed' for case in cases):
        return None
    if returncode != 0:
        return f'no case failed, but {describe_exit(returncode)}'
    if result not in ('OK', 'SKIP'):
        return f'no case failed, but meson calls it {result}'
    return None


def read_program(entry, suites):
    """Makes a Program of one line of meson's log."""
    qualified, _, name = entry['name'].rpartition(' / ')
    suite = qualified.partition(':')[2] or suites.get(name, '')
    cases, plans, bail = parse_tap(entry['stdout'] or '')
    trouble = find_trouble(entry, cases, plans, bail)
    if trouble:
        cases.append(Case(trouble, 'failed'))
    elif not cases:
        cases.append(Case('all of it skipped', 'skipped'))
    output = (entry['stdout'] or '') + (entry.get('stderr') or '')
    return Program(suite, name, cases, entry['duration'], output)


def read_registered(folder, suite):
    """The tests that meson knows, as pairs of name and suite."""
    tests = json.loads((folder / 'meson-info/intro-tests.json').read_text())
    pairs = [(test['name'], test['suite'][0].partition(':')[2] if test['suite'] else '')
             for test in tests]
    return [pair for pair in pairs if suite in ('', pair[1])]


def read_build(folder, suite):
    """Reads what meson logged. Tests that it knows but did not log are failed cases."""
    registered = read_registered(folder, suite)
    suites = dict(registered)
    log = folder / 'meson-logs/testlog.json'
    lines = log.read_text().splitlines() if log.exists() else []
    programs = [read_program(json.loads(line), suites) for line in lines]

    unseen = collections.Counter(name for name, _ in registered)
    unseen.subtract(program.name for program in programs)
    for name in unseen.elements():
        programs.append(Program(suites[name], name, [Case('did not run', 'failed')]))
    if not programs:
        programs.append(Program('', 'meson test', [Case('there are no tests', 'failed')]))
    return programs


def run_build(build):
    """Runs the tests of one build folder; shows meson's line per finished program."""
    folder, _, suite = build.partition(':')
    folder = pathlib.Path(folder)
    # A log of an earlier run must not be taken for this one's.
    (folder / 'meson-logs/testlog.json').unlink(missing_ok=True)
    command = [os.environ.get('MESON', 'meson'), 'test', '--no-rebuild', '-C', str(folder)]
    if suite:
        command += ['--suite', suite]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=os.environ | {'PYTHONUNBUFFERED': '1'}) as meson:
        for line in meson.stdout:
            if MESON_PROGRESS.match(line):
                print(f'{folder}: {line.rstrip()}', flush=True)
    return read_build(folder, suite)


def print_table(build, programs):
    print(f'\n{build:<24}{"cases":>8}{"failed":>8}{"skipped":>9}{"seconds":>9}')
    for suite in sorted({program.suite for program in programs}):
        rows = [program for program in programs if program.suite == suite]
        failed = sum(program.count('failed') for program in rows)
        skipped = sum(program.count('skipped') for program in rows)
        print(f'  {suite or "-":<22}{sum(len(program.cases) for program in rows):>8}'
              f'{failed:>8}{skipped:>9}{sum(program.seconds for program in rows):>9.1f}')


def print_failures(build, programs):
    for program in programs:
        if not program.count('failed'):
            continue
        print(f'\nfailed in {build}: {program.label}')
        for case in program.cases:
            if case.outcome == 'failed':
                print(f'  {case.name}')
        for line in program.output.splitlines()[-TAIL_LINES:]:
            print(f'    | {line}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--unbuilt', action='append', default=[], metavar='DIR')
    parser.add_argument('build', nargs='*', metavar='DIR[:SUITE]')
    options = parser.parse_args()

    builds = {build: run_build(build) for build in options.build}
    for folder in options.unbuilt:
        builds[folder] = [Program('', 'build', [Case('does not compile', 'failed')])]

    for build, programs in builds.items():
        print_table(build, programs)
    for build, programs in builds.items():
        print_failures(build, programs)

    total = {outcome: sum(program.count(outcome)
                          for programs in builds.values() for program in programs)
             for outcome in ('passed', 'failed', 'skipped')}
    print(f"\n{total['passed']} passed, {total['failed']} failed" +
          (f", {total['skipped']} skipped" if total['skipped'] else ''), flush=True)
    return 1 if total['failed'] else 0


if __name__ == '__main__':
    sys.exit(main())
