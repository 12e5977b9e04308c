# SPDX-License-Identifier: Apache-2.0
"""Device memory for frameworks that name a stream, by its handle, at both ends of an allocation."""

from __future__ import annotations

import os
from collections.abc import Callable

from . import _client, _errors, _notice
from ._library import load

_pid = os.getpid()
ADDRESSES = 4096  # and above; below are results


def refuse(result: int) -> None:
    """Raises for a free that failed, and says so: frameworks that free in a destructor hide it.

    A forked child has not the memory that its parent frees there."""
    if result == _errors.NOT_OURS and os.getpid() != _pid:
        return
    error = _client.error(result)
    _notice.say(f"memory could not be freed: {error}")
    raise error


def functions() -> tuple[Callable[[int, int, int], int], Callable[[int, int], int]]:
    """(alloc(n_bytes, device, stream), free(address, stream)) of C, for callers that look at what
    they give: `taken` and `given` do."""
    library = load()
    return library.python_function(b"alloc"), library.python_function(b"free")


def taken(made: int, n_bytes: int) -> int:
    """What alloc gave for `n_bytes`: the address, 0 for no bytes. Raises what it means else."""
    if made < ADDRESSES and n_bytes:
        raise _client.error(made)
    return made


def given(result: int, pointer: int) -> None:
    """What free gave that is not 0."""
    if result != _errors.NOT_OURS:
        # A thread without a context does not know the stream, and the stream may be gone, or locked by a
        # capture: all of the memory's context counts.
        result = load().free_later(None, pointer)
    if result:
        refuse(result)


def ends(device: int) -> tuple[Callable[[int, int], int], Callable[[int, int], None]]:
    """(allocate(n_bytes, stream), free(pointer, stream)) for a device; each is one call of C.

    An allocation waits as all adapters' do, 10 seconds, for memory that others hold. It raises
    OutOfMemory, and is 0 for no bytes. Work that uses the memory is in the free's stream, or before
    it."""
    alloc, give = functions()

    def allocate(n_bytes: int, stream: int) -> int:
        made = alloc(n_bytes, device, stream)
        return made if made >= ADDRESSES else taken(made, n_bytes)

    def free(pointer: int, stream: int) -> None:
        result = give(pointer, stream)
        if result:
            given(result, pointer)

    return allocate, free
