# SPDX-License-Identifier: Apache-2.0
"""What is replaced in torch, so that install() can put it back where it cannot end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ABSENT = object()

_undo: list[Callable[[], None]] = []


def later(undo: Callable[[], None]) -> None:
    """`undo` is called if install() cannot end."""
    _undo.append(undo)


def put(owner: Any, name: str, value: Any) -> None:
    """An attribute of a module or class of torch."""
    before = vars(owner).get(name, _ABSENT)
    setattr(owner, name, value)
    if before is _ABSENT:
        later(lambda: delattr(owner, name))
    else:
        later(lambda: setattr(owner, name, before))


def take_back() -> None:
    """Torch is as it was before the first put()."""
    while _undo:
        _undo.pop()()


def keep() -> None:
    """install() has ended: nothing is put back any more."""
    _undo.clear()
