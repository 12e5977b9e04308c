#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads every #include under a folder and fails on one that the table in HACKING.md forbids.

    includes.py ROOT
"""

import pathlib
import re
import sys

import tap

SOURCES = ('.c', '.h', '.def', '.cc', '.cpp', '.hpp', '.cu')
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')

EVERYTHING = None
# Folder of a layer: the layers that it may include besides itself. A file belongs to the
# innermost layer around it.
LAYERS = {
    'include': set(),
    'base': {'include'},
    'proto': {'base', 'include'},
    'driver/abi': set(),
    'driver': {'driver/abi', 'base', 'include'},
    'driver/emulator': {'driver/abi', 'base'},
    'daemon/identity': {'base', 'include'},
    'daemon/fairness': {'base', 'include'},
    'daemon/policy': {'proto', 'base', 'include'},
    'daemon/backing': {'daemon/identity', 'driver', 'base', 'include'},
    'daemon/server': {'daemon/identity', 'daemon/fairness', 'daemon/policy', 'daemon/backing', 'proto',
                      'driver', 'base', 'include'},
    'daemon/config': {'daemon/server', 'daemon/fairness', 'daemon/policy', 'base', 'include'},
    'daemon': {'daemon/config', 'daemon/server', 'daemon/backing', 'proto', 'driver', 'base', 'include'},
    'client': {'proto', 'driver', 'base', 'include'},
    'metrics': {'client', 'proto', 'base', 'include'},
    'ctl': {'metrics', 'client', 'proto', 'base', 'include'},
    'man/examples': {'include'},
    'python/gpumem/torch/extension': {'include'},
    'bench': EVERYTHING,
    'tests': EVERYTHING,
    'tests/unit': EVERYTHING,
    'tests/live': EVERYTHING,
}

# Layer: its rooms, which are folders in it, lowest first. A room may include itself and the rooms below.
# The layer's own files stand above all of its rooms, and may include each.
ROOMS = {
    'daemon/server': ('scheduler', 'core', 'transport', 'session', 'pools', 'lists', 'requests'),
    'daemon/policy': ('state', 'accounting', 'objects', 'scheduling', 'report', 'check'),
    'client': ('runtime', 'heap', 'reserve', 'streams', 'connection', 'mapping', 'blocks', 'pool',
               'capture', 'watch', 'api', 'adapters'),
    'driver/emulator': ('machine', 'nvml', 'context', 'stream', 'memory'),
    'daemon/backing': ('worker', 'pinned', 'device'),
    'ctl': ('core', 'output', 'query', 'top', 'commands'),
    'tests/unit': ('support', 'base', 'proto', 'driver', 'emulator', 'heap', 'reserve', 'client', 'policy', 'daemon',
                   'ctl', 'metrics'),
    'tests/live': ('support', 'worlds', 'wire', 'limits', 'idle', 'pressure', 'client', 'streams', 'capture',
                   'sharing', 'pinned', 'restart', 'trace', 'tools'),
}

DRIVER_HEADER = re.compile(r'(cuda|cudart|nvml)[^/]*\.h$')
SEES_DRIVER = ('driver/', 'tests/', 'bench/', 'man/examples/')

# Code that is a function of its arguments: nothing here that could ask the world.
PURE = re.compile(r'daemon/(policy|fairness)/|daemon/identity/(cgroup|device_file|proc_stat)\.|'
                  r'client/(heap|reserve)/|'
                  r'metrics/(figures|lines|listen|metrics|pool_sample|tenants|visit)\.')
IMPURE_HEADER = re.compile(
    r'(dlfcn|fcntl|poll|pthread|spawn|threads|time|unistd|uv|sys/(epoll|eventfd|file|ioctl|mman|'
    r'random|socket|stat|syscall|time|timerfd|uio|un|wait))\.h$|base/clock\.h$')


def layer_of(path):
    """The innermost layer around a path in text form, or None."""
    around = [layer for layer in LAYERS if path.startswith(layer + '/')]
    return max(around, key=len, default=None)


def room_of(path):
    """The folder of the room that a path lies in, or of its layer where that has no such room; or None."""
    layer = layer_of(path)
    rooms = [f'{layer}/{room}' for room in ROOMS.get(layer, ())]
    return next((room for room in rooms if path.startswith(room + '/')), layer)


def is_above(layer, room, other):
    """Whether a room of the layer stands above another one of it."""
    rooms = [f'{layer}/{name}' for name in ROOMS.get(layer, ())] + [layer]
    return rooms.index(room) > rooms.index(other)


def read_includes(root):
    """Yields (file, line number, quote, target as written) of every #include."""
    for path in tap.project_files(root, *SOURCES):
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            if match := INCLUDE.match(line):
                yield path.as_posix(), number, match[1], match[2]


def resolve(root, file, quote, target):
    """The project's file that an include means, relative to root, or None for any other."""
    folders = [root, root / 'include']
    if quote == '"':
        folders.insert(0, root / pathlib.PurePath(file).parent)
    for folder in folders:
        path = (folder / target).resolve()
        if path.is_file() and path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    # A header that the build makes is judged by the folder in its name.
    return target if layer_of(target) else None


def check_arrows(root):
    problems = []
    for file, number, quote, target in read_includes(root):
        where = f'{file}:{number}: {target}'
        source, found = layer_of(file), resolve(root, file, quote, target)
        if source is None:
            problems.append(f'{file}: lies in no layer of the table')
        elif source in ROOMS and str(pathlib.PurePath(file).parent) != room_of(file):
            problems.append(f'{file}: lies in no room of {source}/')
        elif found is None:
            if quote == '"':
                problems.append(f'{where}: no such file in the project')
        else:
            wanted = layer_of(found)
            if LAYERS[source] is not EVERYTHING and wanted not in LAYERS[source] | {source}:
                problems.append(f'{where}: {source}/ may not include {wanted}/')
            elif source == wanted and is_above(source, room_of(found), room_of(file)):
                problems.append(f'{where}: {room_of(file)}/ may not include {room_of(found)}/')
    return problems


def check_driver_headers(root):
    return [f'{file}:{number}: {target} outside {", ".join(SEES_DRIVER)}'
            for file, number, quote, target in read_includes(root)
            if DRIVER_HEADER.match(target) and resolve(root, file, quote, target) is None
            and not file.startswith(SEES_DRIVER)]


def check_pure(root):
    problems = []
    for file, number, quote, target in read_includes(root):
        if not PURE.match(file):
            continue
        found = resolve(root, file, quote, target) or ''
        if IMPURE_HEADER.match(target) or DRIVER_HEADER.match(target):
            problems.append(f'{file}:{number}: {target} in pure code')
        elif layer_of(found) in ('driver', 'driver/emulator'):
            problems.append(f'{file}:{number}: {target}: pure code may not include driver/')
    return problems


def check_table(root):
    """HACKING.md and LAYERS with ROOMS name the same folders."""
    folders = LAYERS.keys() | {f'{layer}/{room}' for layer in ROOMS for room in ROOMS[layer]}
    first_cells = re.findall(r'^\| (`[^|]+`) \|', (root / 'HACKING.md').read_text().split(
        '## Layers')[1].split('\n## ')[0], re.MULTILINE)
    named = {folder.rstrip('/') for cell in first_cells for folder in re.findall(r'`([^`]+)`', cell)}
    return ([f'{folder}/: in HACKING.md only' for folder in sorted(named - folders)] +
            [f'{folder}/: not in HACKING.md' for folder in sorted(folders - named)])


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    report = tap.Report()
    report.case('no include points to a higher layer', check_arrows(root))
    report.case('driver headers are included where they may be', check_driver_headers(root))
    report.case('pure code includes nothing that asks the world', check_pure(root))
    report.case('HACKING.md names the same layers', check_table(root))
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
