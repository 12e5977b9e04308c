# SPDX-License-Identifier: Apache-2.0
"""python -m gpumem run: a program whose frameworks take their memory from gpumemd, and keep their
kernels in the store, unchanged."""

from __future__ import annotations

import os
import pathlib
import runpy
import sys

from . import _hook, _notice, _where

SITE_FOLDER = str(pathlib.Path(__file__).parent / "_site")

USAGE = """\
usage: python -m gpumem run [--native] SCRIPT [ARGUMENT...]
       python -m gpumem run [--native] -m MODULE [ARGUMENT...]

Runs the program. What it, or a process that it starts, imports of torch, cupy, numba.cuda, rmm,
cuda.core and warp takes its memory from gpumemd; other modules are not touched. Compiled kernels of
triton, cupy and numba.cuda are kept for the user's other processes.

  --native  all keep their own allocators, to compare: as with GPUMEM_DISABLE=1

environment:
  GPUMEM_DISABLE=1   switches everything off; GPUMEM_KERNELS=0 what is for kernels
  GPUMEM_REQUIRED=1  the program ends where gpumemd cannot serve; without it a line on stderr
                     says so, and the framework keeps its own allocator
  GPUMEM_VERBOSE=1   a line for each framework that is served

exit status: the program's; 125 where GPUMEM_REQUIRED=1 has ended it; 2 for a wrong call
"""


class Usage(Exception):
    """A call that is none."""


def parse(arguments: list[str]) -> tuple[bool, bool, list[str]]:
    """(native, is a module, what is run and its arguments). Raises Usage."""
    native = is_module = False
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "--native":
            native = True
        elif option == "-m":
            is_module = True
            break
        elif option in ("-h", "--help"):
            raise Usage
        elif option == "--":
            break
        else:
            raise Usage(f"{option} is no option")
    if not rest:
        raise Usage("there is nothing to run")
    return native, is_module, rest


def _reach_descendants() -> None:
    """Python that is started from here on runs _site/sitecustomize.py."""
    paths = [SITE_FOLDER, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


def _serve() -> None:
    problem = _where.problem()
    if problem is None:
        os.environ.pop(_hook.NO_MEMORY, None)
    else:
        print(f"gpumem: frameworks keep their own allocators: {problem}", file=sys.stderr)
        if _notice.is_set("GPUMEM_REQUIRED"):
            _hook.end_not_served()
        os.environ[_hook.NO_MEMORY] = "1"
    _reach_descendants()
    _hook.watch_chosen()


def _execute(is_module: bool, program: list[str]) -> None:
    sys.argv = program
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
    runpy.run_path(program[0], run_name="__main__")


def main(arguments: list[str]) -> int:
    """Runs it. The program's exit status is SystemExit's."""
    try:
        native, is_module, program = parse(arguments)
    except Usage as usage:
        if not str(usage):
            print(USAGE, end="")
            return 0
        print(f"gpumem run: {usage}; see --help", file=sys.stderr)
        return 2
    if native:
        os.environ["GPUMEM_DISABLE"] = "1"
    if not _notice.is_disabled():
        _serve()
    _execute(is_module, program)
    return 0
