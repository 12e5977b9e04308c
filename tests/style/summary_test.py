#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Feeds tests/summary.py logs of runs that went well and badly, and reads what it makes of them."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))
import tap

# Stands for meson: takes `test --no-rebuild -C DIR [--suite SUITE]` and leaves the log that the case
# prepared.
FAKE_MESON = '''#!/bin/sh
[ "$*" = "test --no-rebuild -C $4${5:+ --suite unit}" ] || exit 9
[ ! -f "$4/prepared" ] || cp "$4/prepared" "$4/meson-logs/testlog.json"
echo "1/1 progress of meson"
exit 1
'''


def entry(stdout, *, name='p:unit / size', result='OK', returncode=0, stderr=''):
    return {'name': name, 'stdout': stdout, 'stderr': stderr, 'result': result,
            'returncode': returncode, 'duration': 1.5}


def summarise(scratch, builds, *arguments):
    """Runs summary.py over builds {name: (registered names, log entries or None)}.

    A test is registered in suite "unit", or in the one that stands before it: "slow / size".
    """
    meson = scratch / 'meson'
    meson.write_text(FAKE_MESON)
    meson.chmod(0o755)
    for build, (registered, entries) in builds.items():
        name = build.partition(':')[0]
        (scratch / name / 'meson-logs').mkdir(parents=True)
        (scratch / name / 'meson-info').mkdir()
        # A log of an earlier run, which must not count.
        (scratch / name / 'meson-logs/testlog.json').write_text(
            json.dumps(entry('ok 1 - stale\n1..1\n')) + '\n')
        (scratch / name / 'meson-info/intro-tests.json').write_text(json.dumps(
            [{'name': test.rpartition(' / ')[2],
              'suite': ['p:' + (test.rpartition(' / ')[0] or 'unit')]} for test in registered]))
        if entries is not None:
            (scratch / name / 'prepared').write_text(
                ''.join(json.dumps(line) + '\n' for line in entries))
    return subprocess.run([sys.executable, TESTS / 'summary.py', *arguments, *builds],
                          cwd=scratch, env=os.environ | {'MESON': str(meson)},
                          capture_output=True, text=True, check=False)


def problems_of(ran, last, shown=()):
    """What of the expected is missing: the last line, the exit status that goes with it, texts."""
    lines = ran.stdout.splitlines() or ['']
    problems = []
    if lines[-1] != last:
        problems.append(f'last line: {lines[-1]!r}, not {last!r}')
    if ran.returncode != (0 if ' 0 failed' in last else 1):
        problems.append(f'exit status {ran.returncode}')
    problems += [f'not shown: {text!r}' for text in shown if text not in ran.stdout]
    return problems + ran.stderr.splitlines() if problems else []


CASES = [
    # (what, log entry, last line, texts that must be shown)
    ('cases that pass', entry('ok 1 - a\nok 2 b\nok\n1..3\n'), '3 passed, 0 failed', ()),
    ('the plan may come first', entry('1..1\nok 1 - a\n'), '1 passed, 0 failed', ()),
    ('a case that fails, with the tail of the output',
     entry('1..2\nok 1 - a\nnot ok 2 - size.c:12: 3 == 4\n', result='ERROR', returncode=1,
           stderr='told on stderr'), '1 passed, 1 failed',
     ('failed in b: unit / size', 'size.c:12: 3 == 4', '    | told on stderr')),
    ('a case that is skipped', entry('ok 1 - a\nok 2 - b # SKIP no GPU\n1..2\n'),
     '1 passed, 0 failed, 1 skipped', ()),
    ('a program that is skipped', entry('1..0 # SKIP no GPU\n', result='SKIP'),
     '0 passed, 0 failed, 1 skipped', ()),
    ('a crash', entry('1..2\nok 1 - a\n', result='ERROR', returncode=-11), '1 passed, 1 failed',
     ('killed by SIGSEGV',)),
    ('a crash after the last case', entry('1..1\nok 1 - a\n', result='ERROR', returncode=-6),
     '1 passed, 1 failed', ('killed by SIGABRT',)),
    ('a time-out', entry('1..2\nok 1 - a\n', result='TIMEOUT', returncode=-15),
     '1 passed, 1 failed', ('timed out after 2 s',)),
    ('no plan', entry('ok 1 - a\n'), '1 passed, 1 failed', ('printed no plan',)),
    ('no output, though meson calls it skipped', entry('', result='SKIP'),
     '0 passed, 1 failed', ('printed no plan',)),
    ('fewer cases than planned', entry('1..3\nok 1 - a\nok 2 - b\n'), '2 passed, 1 failed',
     ('planned 3 cases, ran 2',)),
    ('a plan of nothing', entry('1..0\n'), '0 passed, 1 failed', ('ran no cases',)),
    ('all cases pass, but the exit status does not, as with a leak',
     entry('1..1\nok 1 - a\n', result='ERROR', returncode=23), '1 passed, 1 failed',
     ('no case failed, but exit status 23',)),
    ('all cases pass, but meson objects', entry('1..1\nok 1 - a\n', result='ERROR'),
     '1 passed, 1 failed', ('meson calls it ERROR',)),
    ('a bail-out', entry('1..2\nok 1 - a\nBail out! no room\n', result='ERROR'),
     '1 passed, 1 failed', ('Bail out! no room',)),
    ('words like ok that are no case', entry('okay\nok, then\n  ok 7 - nested\n1..1\nok 1 - a\n'),
     '1 passed, 0 failed', ()),
]


def main():
    report = tap.Report()

    def check(what, builds, last, shown=(), arguments=()):
        with tempfile.TemporaryDirectory() as scratch:
            ran = summarise(pathlib.Path(scratch), builds, *arguments)
        report.case(what, problems_of(ran, last, shown))

    for what, line, last, shown in CASES:
        check(what, {'b': (['size'], [line])}, last, shown)

    good = entry('1..2\nok 1 - a\nok 2 - b\n')
    check('builds are added up, and each has its rows', {'b': (['size'], [good]),
                                                         'c': (['size'], [good])},
          '4 passed, 0 failed', ('b: 1/1 progress of meson', '  unit                         2'))
    check('a test that did not run', {'b': (['size', 'log'], [good])}, '2 passed, 1 failed',
          ('failed in b: unit / log', 'did not run'))
    check('one of two tests with the same name did not run', {'b': (['size', 'size'], [good])},
          '2 passed, 1 failed', ('did not run',))
    check('of one suite, the tests of others need not run', {'b:unit': (['size', 'slow / log'], [good])},
          '2 passed, 0 failed', ('b:unit',))
    check('of one suite, every test must run', {'b:unit': (['size', 'log'], [good])},
          '2 passed, 1 failed', ('failed in b:unit: unit / log', 'did not run'))
    check('meson left no log, and an older one is there', {'b': (['size'], None)},
          '0 passed, 1 failed', ('did not run',))
    check('no tests at all', {'b': ([], [])}, '0 passed, 1 failed', ('there are no tests',))
    check('a build that does not compile', {'b': (['size'], [good])}, '2 passed, 1 failed',
          ('failed in gone:', 'does not compile'), ('--unbuilt', 'gone'))
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
