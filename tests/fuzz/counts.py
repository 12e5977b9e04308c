# SPDX-License-Identifier: Apache-2.0
"""How often something was run since its sources changed last: build/counts.json.

Counts of one program add up over runs for as long as it is made from the same sources; those of
other sources stay in the file. Several processes may add at a time.
"""

import contextlib
import datetime
import fcntl
import hashlib
import json
import pathlib
import subprocess


def _ninja(build, *arguments):
    done = subprocess.run(['ninja', '-C', str(build), '-t', *arguments], check=True, text=True,
                          capture_output=True)
    return done.stdout.splitlines()


def hash_sources(build, *targets):
    """Of all files of the project that ninja makes the targets from, headers included."""
    build = pathlib.Path(build).resolve()
    inputs = [line.strip() for line in _ninja(build, 'inputs', *targets)]
    objects = [name for name in inputs if name.endswith('.o')]
    headers = [line.strip() for line in _ninja(build, 'deps', *objects) if line.startswith(' ')]
    paths = {pathlib.Path(build, name).resolve() for name in inputs + headers}
    root = build.parent
    own = sorted(path.relative_to(root) for path in paths
                 if path.is_relative_to(root) and not path.is_relative_to(build))
    digest = hashlib.sha256()
    for path in own:
        digest.update(f'{path}\0'.encode())
        digest.update(hashlib.sha256((root / path).read_bytes()).digest())
    return digest.hexdigest()[:12]


@contextlib.contextmanager
def _opened(path):
    path.parent.mkdir(exist_ok=True)
    with open(path, 'a+', encoding='utf-8') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        counts = json.loads(text) if text else {}
        yield counts
        file.seek(0)
        file.truncate()
        json.dump(counts, file, indent=1, sort_keys=True)


def add(path, name, sources, **numbers):
    """Adds the numbers to those of the program with these sources, and returns the sums."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')
    with _opened(pathlib.Path(path)) as counts:
        row = counts.setdefault(name, {}).setdefault(sources, {'first': now})
        row['last'] = now
        for key, number in numbers.items():
            row[key] = row.get(key, 0) + number
        return dict(row)
