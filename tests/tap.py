# SPDX-License-Identifier: Apache-2.0
"""What the Python tests share: TAP on standard output, and a walk over the project's own files."""

import fnmatch
import pathlib


class Report:
    """Prints one TAP line per case; finish() prints the plan and gives the exit status."""

    def __init__(self):
        self.n_cases = 0
        self.n_failed = 0

    def case(self, name, problems):
        """A case that holds if `problems` (a list of lines for a reader) is empty."""
        self.n_cases += 1
        self.n_failed += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {self.n_cases} - {name}")
        for problem in problems:
            print(f'#   {problem}')

    def finish(self):
        print(f'1..{self.n_cases}')
        return 1 if self.n_failed else 0


def project_files(root, *suffixes):
    """Yields the paths, relative to root and sorted, of files that belong to the project.

    Works without git, in an unpacked release too: what .gitignore says is not the project's.
    """
    root = pathlib.Path(root)
    ignore = root / '.gitignore'
    patterns = ['/.git/', '__pycache__/']
    if ignore.exists():
        patterns += ignore.read_text().split()

    def walk(folder):
        for path in sorted((root / folder).iterdir()):
            relative = folder / path.name
            if any(fnmatch.fnmatch(str(relative) if pattern.startswith('/') else path.name, pattern.strip('/'))
                   for pattern in patterns):
                continue
            if path.is_dir() and not path.is_symlink():
                yield from walk(relative)
            elif path.is_file() and (not suffixes or path.suffix in suffixes):
                yield relative

    yield from walk(pathlib.Path())
