# SPDX-License-Identifier: Apache-2.0
"""python -m gpumem kernels: what is in the store, and what clears it."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from typing import Any

from . import _settings
from ._store import Listed, Store, here

USAGE = """\
usage: python -m gpumem kernels [--json]
       python -m gpumem kernels clear [--unused-for DAYS] [triton|numba|cupy]

Lists the compiled kernels that are kept for this user's processes, the last
used first: `used` and `compiled` are how long ago. `clear` deletes them; a
process that needs one compiles it again.

  --json             for programs: bytes, and seconds since 1970
  --unused-for DAYS  only what was not used in that time

environment:
  GPUMEM_KERNELS=0          switches the store off for a program
  GPUMEM_KERNELS_DIR=DIR    the folder; default: $XDG_CACHE_HOME/gpumem/kernels,
                            or else ~/.cache/gpumem/kernels
  GPUMEM_KERNELS_SIZE=4GiB  how much it may hold: the least recently used go
                            first
  GPUMEM_KERNELS_LOWER=DIR  more folders, separated by colons, that are read and
                            never written

exit status: 0; 1 where there is no folder, or the output could not be written;
2 for a wrong call
"""

PRODUCERS = ("triton", "numba", "cupy")


class Usage(Exception):
    """A call that is wrong."""


def parse_clear(arguments: list[str]) -> tuple[str | None, float]:
    """(producer or None, seconds). Raises Usage."""
    producer, seconds, rest = None, 0.0, list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--unused-for":
            days = rest.pop(0) if rest else ""
            if not days.replace(".", "", 1).isdigit():
                raise Usage(f"invalid --unused-for \"{days}\" (expected days, such as 30)")
            seconds = float(days) * 86400
        elif word in PRODUCERS and producer is None:
            producer = word
        else:
            raise Usage(f"invalid \"{word}\" (expected --unused-for, or one of "
                        f"{', '.join(PRODUCERS)})")
    return producer, seconds


def _table(rows: list[list[str]], right: set[int]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(cell.rjust(width) if i in right else cell.ljust(width)
                       for i, (cell, width) in enumerate(zip(row, widths, strict=True)))
             for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _short(text: str, width: int = 40) -> str:
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return printable if len(printable) <= width else printable[:width - 3] + "..."


def _as_dict(listed: Listed) -> dict[str, Any]:
    return {"key": listed.key, **dataclasses.asdict(listed.about), "bytes": listed.n_bytes,
            "compiled": listed.made, "used": listed.used}


def _summary(store: Store, kernels: list[Listed]) -> str:
    n_bytes = _settings.human_size(sum(listed.n_bytes for listed in kernels))
    return (f"{len(kernels)} kernel{'' if len(kernels) == 1 else 's'}, {n_bytes} of "
            f"{_settings.human_size(store.budget)}, in {store.folder}")


def _list(store: Store, as_json: bool) -> None:
    kernels, now = sorted(store.list(), key=lambda listed: -listed.used), time.time()
    if as_json:
        print(json.dumps({"folder": str(store.folder), "budget": store.budget,
                          "lower": [str(folder) for folder in store.lower],
                          "kernels": [_as_dict(listed) for listed in kernels]}, indent=1))
        return
    if kernels:
        rows = [["framework", "version", "kernel", "target", "size", "used", "compiled"]]
        rows += [[k.about.producer, _short(k.about.version, 16), _short(k.about.name),
                  _short(k.about.target, 12), _settings.human_size(k.n_bytes),
                  _settings.human_age(now - k.used), _settings.human_age(now - k.made)]
                 for k in kernels]
        print(_table(rows, {4, 5, 6}))
    print(_summary(store, kernels))


def summary() -> str:
    """One line, for doctor."""
    store = here()
    return _summary(store, list(store.list()))


def main(arguments: list[str]) -> int:
    """The command."""
    if arguments in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    try:
        wrong = arguments if arguments[:1] not in ([], ["clear"], ["--json"]) else arguments[1:]
        if wrong and arguments[0] != "clear":
            raise Usage(f"invalid \"{wrong[0]}\" (expected --json or clear)")
        producer, seconds = parse_clear(arguments[1:]) if arguments[:1] == ["clear"] else (None, 0)
    except Usage as usage:
        print(f"gpumem kernels: {usage}; see --help", file=sys.stderr)
        return 2
    store = here()
    if store.folder is None:
        print("gpumem kernels: this user has no home; GPUMEM_KERNELS_DIR names a folder",
              file=sys.stderr)
        return 1
    if arguments[:1] == ["clear"]:
        n, n_bytes = store.clear(producer, seconds)
        print(f"deleted {n} kernel{'' if n == 1 else 's'}, {_settings.human_size(n_bytes)}")
    else:
        _list(store, bool(arguments))
    return 0
