#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the circles between modules and between rooms, and compares them with ceilings.

    circles.py NM ROOT BUILD

A module is a .c file with the header beside it; a room is a folder. One module needs another if its
object file takes a symbol that the other's defines. The second count adds what the files include.
A count above its ceiling fails, and so does one below: then the ceiling must be lowered.
"""

import collections
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import includes
import tap

# Room: the modules in its largest circle, by calls, and by calls and includes. No row: no circle.
CEILINGS = {
    'client/connection': (0, 2),
    'client/heap': (2, 3),
    'client/reserve': (2, 2),
    'daemon/config': (0, 2),
    'daemon/policy/check': (0, 3),
    'daemon/policy/objects': (5, 5),
    'daemon/server': (0, 2),
    'daemon/server/pools': (2, 2),
    'daemon/server/session': (2, 8),
    'daemon/server/transport': (2, 2),
}

# Rooms that lie in circles with other rooms, all together.
ROOM_CEILINGS = (0, 0)

NOT_PRODUCT = ('tests/', 'bench/')
KINDS = ('by calls', 'by calls and includes')


def room_of(module):
    return str(pathlib.PurePath(module).parent)


def module_of(path):
    return str(pathlib.PurePath(path).with_suffix(''))


def find_objects(root, build):
    """The object file of each product source, {source: object}, as the build says."""
    objects = {}
    for command in json.loads((build / 'compile_commands.json').read_text()):
        source = (build / command['file']).resolve()
        if not source.is_relative_to(root) or source.suffix != '.c':
            continue
        source = source.relative_to(root).as_posix()
        # Tests compile some sources once more, with other options.
        if not (source + '/').startswith(NOT_PRODUCT) and \
                not command['output'].startswith(NOT_PRODUCT):
            objects.setdefault(source, build / command['output'])
    return objects


def read_symbols(nm, objects):
    """Which modules define each symbol, and which symbols each module takes."""
    sources = {str(path): source for source, path in objects.items()}
    ran = subprocess.run([nm, '-A', '-P', *sources], capture_output=True, text=True, check=True)
    defined, taken = collections.defaultdict(set), collections.defaultdict(set)
    for line in ran.stdout.splitlines():
        path, _, symbol = line.partition(': ')
        name, kind = symbol.split()[:2]
        module = module_of(sources[path])
        if kind == 'U':
            taken[module].add(name)
        elif kind in 'TDBRVW' and not name.startswith('__'):
            defined[name].add(module)
    return defined, taken


def call_arrows(nm, objects):
    """The modules that each module takes symbols from."""
    defined, taken = read_symbols(nm, objects)
    arrows = collections.defaultdict(set)
    for module, names in taken.items():
        for name in names:
            # Several programs may define a symbol; the nearest definition is meant.
            found = defined.get(name, set())
            for near in (module.split('/')[0], room_of(module)):
                found = {other for other in found if other.startswith(near + '/')} or found
            arrows[module] |= found - {module}
    return arrows


def include_arrows(root):
    """The modules that the files of each module include."""
    arrows = collections.defaultdict(set)
    for file, _, quote, target in includes.read_includes(root):
        found = includes.resolve(root, file, quote, target)
        if found and not file.startswith(NOT_PRODUCT) and module_of(found) != module_of(file):
            arrows[module_of(file)].add(module_of(found))
    return arrows


def find_circles(arrows):
    """The strongly connected components of more than one node, largest first (Tarjan's way)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(arrows.get(node, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return sorted((circle for circle in found if len(circle) > 1), key=len, reverse=True)


def circles_in_rooms(arrows):
    """The largest circle of modules in each room that has one, by arrows inside the room."""
    inside = {module: {other for other in others if room_of(other) == room_of(module)}
              for module, others in arrows.items()}
    largest = {}
    for circle in find_circles(inside):
        largest.setdefault(room_of(circle[0]), circle)
    return largest


def circles_of_rooms(arrows):
    """The circles of rooms."""
    rooms = collections.defaultdict(set)
    for module, others in arrows.items():
        rooms[room_of(module)] |= {room_of(other) for other in others} - {room_of(module)}
    return find_circles(rooms)


def judge(n_found, ceiling, circle):
    if n_found > ceiling:
        return [f'{n_found} lie in a circle, the ceiling is {ceiling}: {" ".join(circle)}']
    if n_found < ceiling:
        return [f'lower the ceiling to {n_found}; it is {ceiling}']
    return []


def judge_all(graphs, ceilings, room_ceilings):
    """Yields (name, problems) of each room that has a circle or a ceiling, and of the rooms together."""
    for i, arrows in enumerate(graphs):
        largest = circles_in_rooms(arrows)
        for room in sorted(ceilings.keys() | largest.keys()):
            circle = largest.get(room, [])
            ceiling = ceilings[room][i] if room in ceilings else 0
            yield f'{room}, {KINDS[i]}', judge(len(circle), ceiling, circle)
        rooms = sum(circles_of_rooms(arrows), [])
        yield f'rooms, {KINDS[i]}', judge(len(rooms), room_ceilings[i], rooms)


def find_graphs(nm, root, build):
    """The modules that each module needs: by calls, and by calls and includes."""
    by_calls, by_includes = call_arrows(nm, find_objects(root, build)), include_arrows(root)
    both = {module: by_calls.get(module, set()) | by_includes.get(module, set())
            for module in by_calls.keys() | by_includes.keys()}
    return by_calls, both


def main():
    nm, root, build = sys.argv[1], *(pathlib.Path(path).resolve() for path in sys.argv[2:])
    report = tap.Report()
    graphs = find_graphs(nm, root, build)
    report.case('the objects take symbols from each other',
                [] if any(graphs[0].values()) else ['nm shows none'])
    for case in judge_all(graphs, CEILINGS, ROOM_CEILINGS):
        report.case(*case)
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
