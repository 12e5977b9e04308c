# SPDX-License-Identifier: Apache-2.0
"""Which line of the program has torch use CUDA for the first time."""

from __future__ import annotations

import sys
import types
from typing import Any

import torch

_line: str | None = None


def _is_torch(frame: types.FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in ("torch", "gpumem")


def _caller() -> str | None:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _is_torch(frame):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else None


def watch() -> None:
    """Remembers the line, if it is still to come. C++ calls torch.cuda._lazy_init by its name."""
    if torch.cuda.is_initialized():
        return
    begin = torch.cuda._lazy_init

    def _lazy_init(*arguments: Any, **options: Any) -> Any:
        global _line  # without a lock: a child would have it, if another thread had it at the fork
        if _line is None:
            _line = _caller()
        return begin(*arguments, **options)

    torch.cuda._lazy_init = _lazy_init


def line() -> str | None:
    """FILE:LINE, or None where it is not known."""
    return _line
