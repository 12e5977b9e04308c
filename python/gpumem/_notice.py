# SPDX-License-Identifier: Apache-2.0
"""What a person is told on stderr, and the switches of the environment that adapters obey."""

from __future__ import annotations

import os
import sys

_said: set[str] = set()


def say(text: str) -> None:
    """One line, once a process."""
    if text not in _said:
        _said.add(text)
        print(f"gpumem: {text}", file=sys.stderr)


def is_set(name: str) -> bool:
    """Whether a variable of the environment says yes."""
    return os.environ.get(name, "") not in ("", "0")


def is_disabled() -> bool:
    """GPUMEM_DISABLE=1: frameworks keep their own allocators."""
    return is_set("GPUMEM_DISABLE")
