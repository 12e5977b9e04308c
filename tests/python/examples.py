#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of docs/frameworks.md as they stand, each in a process of its own, and prints TAP.

A line in front of each says its name: `<!-- example: NAME -->`, or `<!-- example: NAME, on a GPU -->` for one that the
emulated driver cannot run. Left out are those there, and those of frameworks that are not installed. The driver is
GPUMEM_CUDA_LIBRARY; GPUMEM_TEST_DAEMON, GPUMEM_TEST_CTL and GPUMEM_TEST_LIBRARY say what serves.
"""

import ast
import collections
import importlib.util
import os
import pathlib
import re
import sys

import world

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / 'docs' / 'frameworks.md'
BLOCK = re.compile(r'^```python\n(.*?)^```$', re.MULTILINE | re.DOTALL)
MARK = re.compile(r'<!-- example: (?P<name>[\w-]+)(?P<gpu>, on a GPU)? -->')

Example = collections.namedtuple('Example', 'name needs_gpu source')


def examples(text):
    """Those of a document. ValueError for one without its line."""
    found = []
    for block in BLOCK.finditer(text):
        mark = MARK.fullmatch(text[:block.start()].splitlines()[-1])
        if not mark:
            raise ValueError(f'no line <!-- example: NAME --> before {block[1].splitlines()[0]!r}')
        found.append(Example(mark['name'], bool(mark['gpu']), block[1]))
    return found


def missing(source):
    """The first module that it imports and that is not installed; None."""
    for node in ast.walk(ast.parse(source)):
        names = ([name.name for name in node.names] if isinstance(node, ast.Import) else
                 [node.module] if isinstance(node, ast.ImportFrom) else [])
        for name in names:
            root = name.partition('.')[0]
            if root != 'gpumem' and importlib.util.find_spec(root) is None:
                return root
    return None


def run(machine, example, is_emulated):
    """None, or what is wrong."""
    program = machine.folder / f'example-{example.name}.py'  # not a framework's name
    program.write_text(example.source)
    environment = machine.with_driver() if is_emulated else machine.environment
    ran = machine.run(program, environment=environment, timeout=120)
    return None if ran.returncode == 0 else ran.stderr or f'exit status {ran.returncode}'


def main():
    is_emulated = pathlib.Path(os.environ['GPUMEM_CUDA_LIBRARY']).name == 'libcuda-emu.so'
    found = examples(DOCUMENT.read_text())
    machine = world.World(devices=1, device_bytes='1GiB', pinned_bytes='256MiB').start()
    n_failed = 0
    try:
        for number, example in enumerate(found, 1):
            absent = missing(example.source)
            if is_emulated and example.needs_gpu:
                print(f'ok {number} - {example.name} # SKIP it needs a GPU', flush=True)
                continue
            if absent:
                print(f'ok {number} - {example.name} # SKIP there is no {absent}', flush=True)
                continue
            problem = run(machine, example, is_emulated)
            n_failed += problem is not None
            print(f'{"ok" if problem is None else "not ok"} {number} - {example.name}', flush=True)
            for line in (problem or '').splitlines():
                print(f'#   {line}', flush=True)
    finally:
        machine.stop()
    print(f'1..{len(found)}')
    return 1 if n_failed else 0


if __name__ == '__main__':
    sys.exit(main())
