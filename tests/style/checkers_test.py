#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows the style tests small trees that break their rules: do they say so, and only then?

    checkers_test.py NM LIBRARY CC...    (a library that calls cuInit without defining it)
"""

import json
import pathlib
import subprocess
import sys
import tempfile

STYLE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(STYLE.parent), str(STYLE)]
import circles
import includes
import tap

INCLUDES = STYLE.parent / 'includes.py'
ARROW = 'no include points to a higher layer'
DRIVER = 'driver headers are included where they may be'
PURE = 'pure code includes nothing that asks the world'
TABLE = 'HACKING.md names the same layers'

# One header a layer, and the files that the rules name.
LEGAL_TREE = {
    'include/gpumem.h': '#include <stdint.h>\n#include "gpumem-errors.def"\n',
    'include/gpumem-errors.def': '\n',
    'base/err.h': '#include "gpumem.h"\n#include <time.h>\n',
    'proto/frame_socket.h': '#include "base/err.h"\n',
    'driver/cuda.h': '#include <cuda.h>\n#include "base/err.h"\n',
    'driver/emulator/memory/vmm_calls.c': '#include <cuda.h>\n#include "base/err.h"\n',
    'daemon/policy/state/bins.h': '#include "proto/frame_socket.h"\n#include <stdint.h>\n',
    'daemon/backing/worker/worker.h': '#include "driver/cuda.h"\n#include <pthread.h>\n',
    'daemon/server/server.h': '#include "daemon/policy/state/bins.h"\n#include "daemon/backing/worker/worker.h"\n',
    'daemon/main.c': '#include "daemon/server/server.h"\n#include "driver/cuda.h"\n',
    'client/heap/heap.h': '#include "base/err.h"\n',
    'client/connection/link.c': '#include "client/heap/heap.h"\n#include "driver/cuda.h"\n#include <unistd.h>\n',
    'ctl/main.c': '#include "client/heap/heap.h"\n#include "proto/frame_socket.h"\n',
    'tests/unit/heap/test_heap.c': '#include "client/heap/heap.h"\n#include "daemon/policy/state/bins.h"\n'
                                   '#include <cuda.h>\n',
    'tests/live/support/daemon.h': '#include "ctl/main.c"\n',
    'tests/live/worlds/solo.h': '#include "tests/live/support/daemon.h"\n',
    'bench/hot.c': '#include <cuda.h>\n#include "client/heap/heap.h"\n',
    # Of no concern: what the build made.
    'build/base/generated.h': '#include "daemon/main.c"\n',
    '.gitignore': '/build/\n',
    'HACKING.md': (STYLE.parent.parent / 'HACKING.md').read_text(),
}

# (the file, what it includes besides, the one case that must fail)
FORBIDDEN = [
    ('base/err.h', '"proto/frame_socket.h"', ARROW),
    ('base/err.h', '<proto/frame_socket.h>', ARROW),
    ('base/err.h', '"../proto/frame_socket.h"', ARROW),
    ('base/err.h', '"proto/not-made-yet.h"', ARROW),
    ('base/err.h', '"nowhere.h"', ARROW),
    ('include/gpumem.h', '"base/err.h"', ARROW),
    ('proto/frame_socket.h', '"driver/cuda.h"', ARROW),
    ('driver/cuda.h', '"proto/frame_socket.h"', ARROW),
    ('driver/cuda.h', '"driver/emulator/memory/vmm_calls.c"', ARROW),
    ('driver/emulator/memory/vmm_calls.c', '"driver/cuda.h"', ARROW),
    ('daemon/policy/state/bins.h', '"daemon/backing/worker/worker.h"', ARROW),
    ('daemon/backing/worker/worker.h', '"daemon/policy/state/bins.h"', ARROW),
    ('daemon/backing/worker/worker.h', '"daemon/server/server.h"', ARROW),
    ('daemon/server/server.h', '"daemon/main.c"', ARROW),
    ('daemon/main.c', '"client/heap/heap.h"', ARROW),
    ('client/connection/link.c', '"daemon/policy/state/bins.h"', ARROW),
    ('ctl/main.c', '"driver/cuda.h"', ARROW),
    ('ctl/main.c', '"daemon/server/server.h"', ARROW),
    ('tests/live/support/daemon.h', '"tests/live/worlds/solo.h"', ARROW),
    ('daemon/backing/worker/worker.h', '<cuda.h>', DRIVER),
    ('client/connection/link.c', '<nvml.h>', DRIVER),
    ('ctl/main.c', '<cuda_runtime.h>', DRIVER),
    ('daemon/policy/state/bins.h', '<dlfcn.h>', PURE),
    ('daemon/policy/state/bins.h', '<time.h>', PURE),
    ('daemon/policy/state/bins.h', '"base/clock.h"', PURE),
    ('client/heap/heap.h', '<sys/socket.h>', PURE),
    ('client/heap/heap.h', '"driver/cuda.h"', PURE),
]


def write_tree(folder, tree):
    for path, text in tree.items():
        path = pathlib.Path(folder, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def failed_cases(script, tree, *arguments):
    """Runs a style test on a tree {path: text} and returns the names of its failed cases."""
    with tempfile.TemporaryDirectory() as folder:
        write_tree(folder, tree)
        ran = subprocess.run([sys.executable, script, *arguments, folder], capture_output=True,
                             text=True, check=False)
    failed = [line.partition(' - ')[2] for line in ran.stdout.splitlines()
              if line.startswith('not ok')]
    if ran.returncode != (1 if failed else 0) or '1..' not in ran.stdout:
        failed.append(f'exit status {ran.returncode}: {ran.stderr}')
    return failed


def differ(found, expected):
    return [] if found == expected else [f'failed cases: {found}, expected: {expected}']


def check_includes(report):
    report.case('includes: a legal tree', differ(failed_cases(INCLUDES, LEGAL_TREE), []))
    for file, target, case in FORBIDDEN:
        tree = LEGAL_TREE | {file: LEGAL_TREE[file] + f'#  include {target}\n'}
        report.case(f'includes: {target} in {file}', differ(failed_cases(INCLUDES, tree), [case]))
    report.case('includes: a folder of no layer', differ(
        failed_cases(INCLUDES, LEGAL_TREE | {'extra/a.h': '#include <stdio.h>\n'}), [ARROW]))
    lost = LEGAL_TREE['HACKING.md'].replace('| `ctl/` |', '| `cli/` |')
    report.case('includes: another table in HACKING.md', differ(
        failed_cases(INCLUDES, LEGAL_TREE | {'HACKING.md': lost}), [TABLE]))


# What the rooms of a layer may include: (the file, what it includes, what is said of it).
ROOMS = {'ctl': ('low', 'high')}
ROOM_ARROWS = [
    ('ctl/low/a.h', '"ctl/low/b.h"', []),
    ('ctl/low/a.h', '"base/err.h"', []),
    ('ctl/high/a.h', '"ctl/low/b.h"', []),
    ('ctl/main.c', '"ctl/low/b.h"', []),
    ('bench/hot.c', '"ctl/low/b.h"', []),
    ('ctl/low/a.h', '"ctl/high/b.h"', ['ctl/low/ may not include ctl/high/']),
    ('ctl/low/a.h', '"../ctl.h"', ['ctl/low/ may not include ctl/']),
    ('ctl/high/a.h', '"ctl/ctl.h"', ['ctl/high/ may not include ctl/']),
    ('ctl/low/a.h', '"daemon/main.c"', ['ctl/ may not include daemon/']),
    ('ctl/middle/a.h', '"ctl/low/b.h"', ['lies in no room of ctl/']),
    ('ctl/low/deep/a.h', '"ctl/low/b.h"', ['lies in no room of ctl/']),
]


def check_rooms(report):
    ours, includes.ROOMS = includes.ROOMS, ROOMS
    for file, target, expected in ROOM_ARROWS:
        tree = {'ctl/low/b.h': '', 'ctl/high/b.h': '', 'ctl/ctl.h': '', 'base/err.h': '',
                'daemon/main.c': '', file: f'#include {target}\n'}
        with tempfile.TemporaryDirectory() as folder:
            write_tree(folder, tree)
            found = [problem.rpartition(': ')[2]
                     for problem in includes.check_arrows(pathlib.Path(folder).resolve())]
        report.case(f'includes: {target} in {file}, with rooms', differ(found, expected))
    includes.ROOMS = ours


def check_words(report):
    script = STYLE / 'words.py'
    notes, paths = 'no notes to oneself', 'no paths of one machine'
    vague = 'no words that leave open which process is meant'
    for what, text, expected in [
            ('prose', 'a path of /usr/lib, mkstemp of "file-XXXXXX", $root/work, /workers', []),
            ('a note', 'a = 1; /* TO' 'DO later */', [notes]),
            ('another note', 'X' 'XX: odd', [notes]),
            ('a home', 'see /ho' 'me/someone/file', [paths]),
            ('a folder of one machine', '"/wo' 'rk/main"', [paths]),
            ('a folder of one machine, last word', 'it is in /wo' 'rk.', [paths]),
            ('an unnamed actor', 'memory that no' 'body uses', [vague]),
            ('an unnamed actor first', 'Who' 'ever asks is told.', [vague]),
            ('an unnamed owner', "some" "body's memory", [vague]),
            ('again in an old word', 'it is made an' 'ew', [vague]),
            ('a message without what is expected', '"x" is no si' 'ze', [vague]),
            ('parts of other words', 'no bodies, some bodies, a new name; it is no sizeable part', []),
    ]:
        report.case(f'words: {what}', differ(failed_cases(script, {'bench/b.txt': text}), expected))


def check_format(report):
    script = STYLE / 'format.py'
    rules = (STYLE.parent.parent / '.clang-format').read_text()
    good = 'int f(void)\n{\n        return 0;\n}\n'
    laid_out = 'C is laid out as .clang-format says'
    for what, text, expected in [('as it should be', good, []),
                                 ('indented otherwise', good.replace('        ', '  '), [laid_out])]:
        tree = {'.clang-format': rules, 'a.c': text}
        report.case(f'format: {what}', differ(failed_cases(script, tree), expected))


def check_symbols(report, nm, library):
    ran = subprocess.run([sys.executable, STYLE / 'symbols.py', nm, library],
                         capture_output=True, text=True, check=False)
    ok = ran.returncode == 1 and ran.stdout.startswith('not ok 1') and 'cuInit' in ran.stdout
    report.case('symbols: a library that wants cuInit',
                [] if ok else (ran.stdout + ran.stderr).splitlines())


def run_style(script, *arguments):
    """Runs a style test and returns the names of its failed cases."""
    ran = subprocess.run([sys.executable, STYLE / script, *arguments], capture_output=True,
                         text=True, check=False)
    return [line.partition(' - ')[2] for line in ran.stdout.splitlines()
            if line.startswith('not ok')] + ran.stderr.splitlines()


def check_exports(report, nm, library):
    for what, header, expected in [
            ('exported without a node', 'GPUMEM_API int wants_driver(void);',
             ['what is declared is exported', 'what is exported is declared']),
            ('a header without a function', '#define GPUMEM_API\n/* GPUMEM_API int f(void); */',
             ['the headers declare functions', 'what is exported is declared'])]:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'a.h')
            path.write_text(header)
            failed = run_style('exports.py', nm, 'NODE_0', library, path)
        report.case(f'exports: {what}', differ(failed, expected))


# By calls front/a and front/b are a circle, and so are the rooms front and back. By includes back/c and
# back/d are one, too.
CIRCLES_TREE = {
    'front/a.c': 'int b(void), c(void);\nint a(void) { return b() + c(); }\n',
    'front/b.c': 'int a(void);\nint b(void) { return a(); }\n',
    'front/e.c': 'int a(void);\nint e(void) { return a(); }\n',
    'back/c.c': '#include "d.h"\nint e(void);\nint c(void) { return e(); }\n',
    'back/c.h': '\n',
    'back/d.h': '#include "back/c.h"\n',
    'tests/t.c': 'int a(void);\nint t(void) { return a(); }\n',
}
CIRCLES_CEILINGS = {'front': (2, 2), 'back': (0, 2)}


def find_circles(nm, compiler, tree):
    """The graphs of a made-up tree {path: text}, of which the sources are compiled."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        build = folder / 'build'
        commands = []
        write_tree(folder, tree)
        for path in sorted(path for path in tree if path.endswith('.c')):
            (build / path).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([*compiler, '-I', folder, '-c', folder / path, '-o', build / f'{path}.o'],
                           check=True)
            commands.append({'file': f'../{path}', 'output': f'{path}.o'})
        (build / 'compile_commands.json').write_text(json.dumps(commands))
        return circles.find_graphs(nm, folder, build)


def check_circles(report, nm, compiler):
    graphs = find_circles(nm, compiler, CIRCLES_TREE)
    for what, ceilings, room_ceilings, expected in [
            ('what there is', CIRCLES_CEILINGS, (2, 2), []),
            ('no ceilings', {}, (2, 2), ['front, by calls', 'back, by calls and includes',
                                         'front, by calls and includes']),
            ('a ceiling too low', CIRCLES_CEILINGS | {'front': (1, 2)}, (2, 2), ['front, by calls']),
            ('a ceiling too high', CIRCLES_CEILINGS | {'back': (2, 2)}, (2, 2), ['back, by calls']),
            ('a room that is gone', CIRCLES_CEILINGS | {'gone': (2, 0)}, (2, 2), ['gone, by calls']),
            ('rooms, too low', CIRCLES_CEILINGS, (0, 2), ['rooms, by calls']),
            ('rooms, too high', CIRCLES_CEILINGS, (2, 3), ['rooms, by calls and includes'])]:
        failed = [name for name, problems in circles.judge_all(graphs, ceilings, room_ceilings)
                  if problems]
        report.case(f'circles: {what}', differ(failed, expected))


def check_protocol(report):
    table = '<!-- generated: begin a -->\n| 1 |\n<!-- end -->\n'
    as_lists, placed = 'every table is as the lists say', 'every table has its place'
    listed = 'every message without an answer is listed'
    silent = ''.join(f'### {name}\n\n`1`, 0 bytes. No answer but ERROR.\n\n' for name in ('ONE', 'TWO'))
    for what, document, expected in [
            ('as the lists say', f'Words.\n{table}More.\n', []),
            ('another number', f'Words.\n{table}'.replace('1', '2'), [as_lists]),
            ('no place', 'Words.\n', [placed]),
            ('two places', table + table, [placed]),
            ('a table of nothing', table + table.replace(' a ', ' b '), [placed]),
            ('no answers', f'{table}{silent}Here ONE\nand TWO have no answer unless they\nfail.\n', []),
            ('no answers, one not listed', f'{table}{silent}ONE and SIX have no answer unless they fail.\n',
             [listed]),
            ('no answers, no list', table + silent, [listed])]:
        with tempfile.TemporaryDirectory() as folder:
            tables, path = pathlib.Path(folder, 'tables'), pathlib.Path(folder, 'a.md')
            tables.write_text(f"#!/bin/sh\ncat <<'E'\n{table}E\n")
            tables.chmod(0o755)
            path.write_text(document)
            failed = run_style('protocol.py', tables, path)
            run_style('protocol.py', '--write', tables, path)
            left = run_style('protocol.py', tables, path)
        report.case(f'protocol: {what}', differ(failed, expected))
        report.case(f'protocol: {what}, written again', differ(as_lists in left, False))


def check_built(report):
    for what, programs, names, expected in [
            ('named by its module', ['tests/live/test_a.c'], "'a'", []),
            ('named in full', ['tests/live/test_a.c'], "'test_a.c'", []),
            ('named without its folder', ['tests/live/test_live_a.c'], "'a'", []),
            ('in a folder below', ['tests/live/room/test_a.c'], "'a'", []),
            ('a room of its name', ['tests/live/a/test_a.c'], "'a/'", ['every test program is built']),
            ('not named', ['tests/live/test_a.c'], "'b'", ['every test program is built']),
            ('one of two', ['tests/live/test_a.c', 'tests/live/test_b.c'], "'a'",
             ['every test program is built'])]:
        tree = dict.fromkeys(programs, '\n') | {'tests/live/meson.build': f'tests = [{names}]\n'}
        report.case(f'built: {what}', differ(failed_cases(STYLE / 'built.py', tree), expected))
    report.case('built: no meson.build', differ(
        failed_cases(STYLE / 'built.py', {'tests/live/test_a.c': '\n'}), ['every test program is built']))


def check_facts(report):
    head = '| fact | emulated | H200 | test |\n|---|---|---|---|\n'
    there = 'every fact names tests of the contract suite'
    verdicts = 'every verdict is of a run that is known'
    case = 'TEST(one, .to = 2)\n{\n}\n\nSTART_TEST(lost)\n'
    files = {'tests/contract/test_contract_a.c': case, 'tests/live/test_b.c': case,
             'bench/RESULTS.md': 'commit 0123abc\n'}
    for what, cells, expected in [
            ('a run that is known', 'same | same, 0123abc | `contract_a: one`', []),
            ('no run yet', 'same | not run | `contract_a: one`', []),
            ('an unknown run', 'same | same, fedcba9 | `contract_a: one`', [verdicts]),
            ('no verdict', 'same | perhaps | `contract_a: one`', [verdicts]),
            ('the emulated driver differs', 'other | not run | `contract_a: one`', [verdicts]),
            ('no such case', 'same | not run | `contract_a: two`', [there]),
            ('a case that is not run', 'same | not run | `contract_a: lost`', [there]),
            ('no test', 'same | not run | by hand', [there]),
            ('words besides', 'same | not run | `contract_a: one` and more', [there]),
            ('a test on one driver only', 'same | not run | `b: one`', [there])]:
        tree = files | {'docs/driver-facts.md': f'{head}| x | {cells} |\n'}
        report.case(f'facts: {what}', differ(failed_cases(STYLE / 'facts.py', tree), expected))


# The case that fails for each, and what a document says then.
DOCUMENTS = [
    ('what documents link to is there', 'README.md', '[a page](docs/gone.md)'),
    ('what documents link to is there', 'docs/a.md', '[a page](docs/b.md)'),
    ('what is in docs/ is installed, and what it links to', 'docs/a.md', '[a page](../README.md)'),
    ('what is in docs/ is installed, and what it links to', 'docs/c.md', 'a page'),
    ('targets of make that documents name are there', 'docs/a.md', '`make tea`'),
    ('targets of make that documents name are there', 'docs/a.md', '```\nmake tea   # now\n```'),
    ('README.md and TESTING.md are short', 'README.md', 'line\n' * 151),
    ('README.md and TESTING.md are short', 'TESTING.md', 'x' * 8193),
    ('tests that documents name are there', 'docs/a.md', '`live_a: two`'),
    ('texts that docs/troubleshooting.md quotes are those of the programs', 'docs/troubleshooting.md',
     '| `no such text` | x |'),
    ('texts that docs/troubleshooting.md quotes are those of the programs', 'docs/troubleshooting.md',
     '| `the driver fails`, `its pool ... is empty` | x |'),
    ('pictures can be shown', 'docs/a.svg', '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><text>a & b</text></svg>'),
    ('pictures can be shown', 'docs/a.svg', '<svg xmlns="http://www.w3.org/2000/svg"/>'),
    ('documents have plain words', 'docs/a.md', 'for who' 'ever asks'),
    ('documents have plain words', 'README.md', '"x" is no ' 'size'),
]
SOUND = '[a](docs/b.md#part), [b](https://x.invalid/c), `make test`, `make test N=1`, `make a room`, `live_a: one`'


def check_documents(report):
    files = {'docs/b.svg': '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>',
             'meson.build': "files('docs/a.md', 'docs/b.md', 'docs/troubleshooting.md')\n", 'README.md': 'line\n' * 150, 'TESTING.md': 'x' * 8192, 'Makefile': 'test: build\n', 'docs/b.md': '\n',
             'docs/troubleshooting.md': '| `the driver fails`, `a ... is full`, `CUDA_ERROR_X` | `not quoted` |\n',
             'tests/live/room/test_a.c': 'TEST(one)\n', 'client/a.c': 'log("the driver "\n    "fails", "a pool is full");\n'}
    report.case('documents: sound ones', differ(
        failed_cases(STYLE / 'documents.py', files | {'CHANGELOG.md': f'{SOUND}\n'}), []))
    for expected, name, text in DOCUMENTS:
        report.case(f'documents: {name} with {text[:20]!r}', differ(
            failed_cases(STYLE / 'documents.py', files | {name: f'{text}\n'}), [expected]))


def main():
    nm, library, *compiler = sys.argv[1:]
    report = tap.Report()
    check_includes(report)
    check_rooms(report)
    check_words(report)
    check_format(report)
    check_symbols(report, nm, library)
    check_exports(report, nm, library)
    check_circles(report, nm, compiler)
    check_protocol(report)
    check_built(report)
    check_facts(report)
    check_documents(report)
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
