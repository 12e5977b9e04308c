# SPDX-License-Identifier: Apache-2.0
"""Torch's first use of CUDA: which line of the program makes it, and what is to be done before."""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import torch

# Of torch._C, for torch.jit.load: they may use CUDA without torch.cuda._lazy_init.
_BEGIN_IN_CPP = ("import_ir_module", "import_ir_module_from_buffer")

_line: str | None = None
_before: list[Callable[[], None]] = []
_lock = threading.RLock()


def _renew_lock() -> None:
    """A child has only the thread that forked: another thread's lock would stay."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def _is_torch(frame: types.FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in ("torch", "gpumem")


def _caller() -> str | None:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _is_torch(frame):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else None


def before(act: Callable[[], None]) -> None:
    """`act` is called once, before torch begins to use CUDA. Other threads' first uses wait for it."""
    _before.append(act)


def forget() -> None:
    """Nothing is to be done before any more."""
    _before.clear()


def _prepare() -> None:
    with _lock:
        while _before:
            _before.pop()()


def _prepared(function: Callable[..., Any]) -> Callable[..., Any]:
    def prepared(*arguments: Any, **options: Any) -> Any:
        _prepare()
        return function(*arguments, **options)

    return prepared


def watch() -> None:
    """Remembers the line, if it is still to come. C++ calls torch.cuda._lazy_init by its name."""
    if torch.cuda.is_initialized():
        return
    begin = torch.cuda._lazy_init

    def _lazy_init(*arguments: Any, **options: Any) -> Any:
        global _line  # without a lock: a child would have it, if another thread had it at the fork
        if _line is None:
            _line = _caller()
        _prepare()
        return begin(*arguments, **options)

    torch.cuda._lazy_init = _lazy_init
    for name in _BEGIN_IN_CPP:
        if hasattr(torch._C, name):
            setattr(torch._C, name, _prepared(getattr(torch._C, name)))


def line() -> str | None:
    """FILE:LINE, or None where it is not known."""
    return _line
