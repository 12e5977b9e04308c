# SPDX-License-Identifier: Apache-2.0
"""Device memory for frameworks that name a stream, by its handle, at both ends of an allocation."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

from . import _client, _errors, _notice
from ._library import load

_pid = os.getpid()


def _free_without_context(pointer: int, result: int) -> None:
    """A thread without a context does not know the stream: all of the memory's context counts."""
    if result in (_errors.NO_CONTEXT, _errors.WRONG_STREAM):
        result = load().free_later(None, pointer)
    if result:
        refuse(result)


def refuse(result: int) -> None:
    """Raises for a free that failed, and says so: frameworks that free in a destructor hide it.

    A forked child has not the memory that its parent frees there."""
    if result == _errors.NOT_OURS and os.getpid() != _pid:
        return
    error = _client.error(result)
    _notice.say(f"memory could not be freed: {error}")
    raise error


def ends(device: int) -> tuple[Callable[[int, int], int], Callable[[int, int], None]]:
    """(allocate(n_bytes, stream), free(pointer, stream)) for a device; each is one call of C.

    An allocation waits as all adapters' do, 10 seconds, for memory that others hold. It raises
    OutOfMemory, and is 0 for no bytes. Work that uses the memory is in the free's stream, or before
    it."""
    library, address, by_reference = load(), ctypes.c_void_p, ctypes.byref
    take, give = library.device_alloc, library.free

    def allocate(n_bytes: int, stream: int) -> int:
        made = address()
        result = take(n_bytes, device, stream, by_reference(made)) if n_bytes else 0
        if result:
            raise _client.error(result)
        return made.value or 0

    def free(pointer: int, stream: int) -> None:
        result = give(None, pointer, stream)
        if result:
            _free_without_context(pointer, result)

    return allocate, free
