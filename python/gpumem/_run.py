# SPDX-License-Identifier: Apache-2.0
"""python -m gpumem run: a program whose frameworks take their memory from gpumemd, and keep their
kernels in the store, unchanged."""

from __future__ import annotations

import os
import pathlib
import runpy
import sys
import types

from . import _answer, _hook, _notice, _where

SITE_FOLDER = str(pathlib.Path(__file__).parent / "_site")

USAGE = """\
usage: python -m gpumem run [--native] SCRIPT [ARGUMENT...]
       python -m gpumem run [--native] -m MODULE [ARGUMENT...]

Runs the program. What it, or a process that it starts, imports of torch, cupy,
numba.cuda, rmm, cuda.core and warp takes its memory from gpumemd; other modules
are not touched. Compiled kernels of triton, cupy and numba.cuda are kept for
the user's other processes.

  --native  all keep their own allocators, to compare: as GPUMEM_DISABLE=1 does

environment:
  GPUMEM_DISABLE=1   switches all of this off; GPUMEM_KERNELS=0 what is for
                     kernels
  GPUMEM_REQUIRED=1  the program ends where gpumemd cannot serve; without it a
                     line on stderr says so, and the framework keeps its own
                     allocator
  GPUMEM_VERBOSE=1   a line for each framework that is served

exit status: the program's; 125 where GPUMEM_REQUIRED=1 has ended it; 2 for a
wrong call
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
            raise Usage(f'invalid "{option}" (expected --native, -m or a script)')
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


def _say_missing(script: str) -> bool:
    """Whether it cannot be opened, and Python's own line then. A folder with a __main__.py can be run."""
    try:
        if not os.path.isdir(script):
            open(script, "rb").close()
    except OSError as error:
        print(f"{sys.orig_argv[0]}: can't open file {os.path.abspath(script)!r}: "
              f"[Errno {error.errno}] {error.strerror}", file=sys.stderr)
        return True
    return False


# Modules whose frames a program's traceback has not: what runs it, what watches its imports, and what Python leaves out
# where nothing watches them.
_OWN = {__name__, _hook.__name__, "runpy", "importlib._bootstrap", "importlib._bootstrap_external"}


def _without_own(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The same traceback without those frames."""
    frames = []
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") not in _OWN:
            frames.append(trace)
        trace = trace.tb_next
    kept = None
    for frame in reversed(frames):
        frame.tb_next = kept
        kept = frame
    return kept


def _report_as_python(error: BaseException) -> None:
    """The exception leaves this process by Python's own way, and looks as if nothing had run the program."""
    trace, hook = _without_own(error.__traceback__), sys.excepthook
    if isinstance(error, ImportError) and trace is None:  # there is nothing to run
        raise SystemExit(f"{sys.executable}: {error}") from None

    def report(kind: type[BaseException], value: BaseException, whole: object) -> None:
        sys.excepthook = hook
        sys.last_traceback = value.__traceback__ = trace
        hook(kind, value, trace)

    sys.excepthook = report


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
            return _answer.write(USAGE)
        print(f"gpumem run: {usage}; see --help", file=sys.stderr)
        return 2
    if not is_module and _say_missing(program[0]):
        return 2
    if native:
        os.environ["GPUMEM_DISABLE"] = "1"
    if not _notice.is_disabled():
        _serve()
    try:
        _execute(is_module, program)
    except SystemExit:
        raise
    except BaseException as error:
        _report_as_python(error)
        raise
    return 0
