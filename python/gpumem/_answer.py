# SPDX-License-Identifier: Apache-2.0
"""What a command of python -m gpumem prints: written when it is complete, and a failure if it cannot be."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable


def write(text: str, status: int = 0) -> int:
    """Writes it to standard output. Gives that exit status, or 1 in place of 0 where it cannot be written."""
    try:
        print(text, end="", flush=True)
    except OSError as error:
        print(f"gpumem: the output could not be written: {error.strerror}", file=sys.stderr)
        # What is still buffered would fail once more when the interpreter ends, with a traceback.
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return status or 1
    return status


def of(command: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Runs a command that gives its exit status, and writes what it has printed."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        status = command(arguments)
    return write(text.getvalue(), status)
